"""Runs every sample against an installation of its own: samples_test.py CMAKE BUILD ROOT."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

CMAKE, BUILD, ROOT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from plain_files import write_ids  # noqa: E402
from program_case import FolderCase  # noqa: E402

SAMPLES, MODELS = ROOT / "samples", ROOT / "tests" / "data" / "models"
CONV = ROOT / "tests" / "cli" / "data" / "conv"

# What each recipe runs on, and what must hold of the report.
RECIPES = {
    "attention": ("random-qwen2", (), lambda r: any(x["name"].endswith(".pv") and x["status"] == "quantized" for x in r["layers"])),
    "best-error": ("conv", (), lambda r: r["layers"][0]["weight"]["scale_rule"] == "mse"),
    "cnn": ("conv", (), lambda r: r["layers"][0]["activation"]["scale_rule"] == "percentile"),
    "delayed": ("random-llama", (), lambda r: {"delayed"} == rules(r)),
    "llm-cast": ("random-qwen2", None, lambda r: {"cast"} == rules(r)),
    "llm-outliers": ("random-llama", (), lambda r: {"percentile", "mse"} == rules(r)),
    "llm-static": ("random-qwen2", (), lambda r: r["kv_cache"][0]["k"]["sqnr_db"] > 20),
    "llm-weights-only": ("random-qwen2", None, lambda r: {False, True} == {x["weight_only"] or False for x in r["layers"]} and not rules(r)),
    "moe": ("random-qwen3-moe", (), lambda r: any("experts" in x["name"] and x["status"] == "quantized" for x in r["layers"])),
    # Of five blocks five would stay.
    "pangu-qat": ("random-pangu-embedded", ("--set", "high_precision_layers=2"), lambda r: kept_blocks(r) == {"0", "4"}),
    "ocr-classifier": ("conv", (), lambda r: "size: [48, 192]" in r["recipe"]["resolved"]),
}  # fmt: skip


def rules(report):
    return {x["activation"]["scale_rule"] for x in report["layers"] if x["activation"]}


def kept_blocks(report):
    blocks = {}
    for layer in report["layers"]:
        if re.search(r"mlp\.(gate|up|down)_proj$", layer["name"]):
            blocks.setdefault(layer["name"].split(".")[2], set()).add(layer["status"])
    return {b for b, states in blocks.items() if states == {"kept"}}


def shell_steps(path):
    """The commands of a CI file by name: 'run' of GitHub's steps, entries of GitLab's scripts."""
    steps, lines, name = [], path.read_text().splitlines(), ""
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if found := re.match(r"\s+- name: (.*)", line):
            name = found.group(1)
        elif re.match(r"\s+(before_)?script:$", line):
            name = line.strip()
        found = re.match(r"(\s+)(?:- )?run: (.*)", line)
        if not found and name.endswith("script:"):
            found = re.match(r"(\s+)- (.*)", line)
            if not found and not re.match(r"\s+(before_)?script:$", line):
                name = ""
        if not found:
            continue
        command, indent = found.group(2), len(found.group(1))
        if command == "|":
            block = []
            while at < len(lines) and (not lines[at].strip() or len(lines[at]) - len(lines[at].lstrip()) > indent):
                block.append(lines[at])
                at += 1
            command = "\n".join(block)
        steps.append((name, command))
    return steps


class Samples(FolderCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)

    def setUp(self):
        super().setUp()
        (self.folder / "calibration").symlink_to(CONV)
        shutil.copy(CONV / "model.onnx", self.folder)
        write_ids(self.folder / "ids.npy", [[(7 * i + s) % 200 for i in range(24)] for s in range(6)])

    def run_command(self, command, code=0, **variables):
        environment = {
            "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")},
            **variables,
        }
        command = ["bash", "-e", "-o", "pipefail", "-c", command] if isinstance(command, str) else command
        done = super().run_command(*command, code=code, cwd=self.folder, env=environment)
        return done.stdout + done.stderr

    def test_recipes(self):
        self.assertEqual({p.stem for p in (SAMPLES / "recipes").glob("*.yaml")}, set(RECIPES))
        for name, (model, extra, holds) in RECIPES.items():
            with self.subTest(recipe=name):
                path = SAMPLES / "recipes" / f"{name}.yaml"
                self.assertIn(f"{name}.yaml", path.read_text(), "how to run it stands in its comment")
                onnx = model == "conv"
                source = self.folder / "model.onnx" if onnx else MODELS / model
                data = [] if extra is None else ["--data", "calibration/test_data_set_0" if onnx else "ids.npy"]
                self.run_command(["hif8-calibrate", source, *data, "-o", f"out-{name}", "--recipe", path, "-q", *(extra or ())])
                report = json.loads((self.folder / f"out-{name}" / "report.json").read_text())
                self.assertTrue(holds(report), [x["name"] + " " + x["status"] for x in report["layers"]])

    def test_github_actions(self):
        steps = shell_steps(SAMPLES / "ci" / "github-actions.yml")
        self.assertEqual([n for n, _ in steps], ["Install", "Quantize", "Table for the summary", "Files", "Gate", "Pack"])
        given = {"MODEL": "model.onnx", "DATA": "calibration/test_data_set_0", "MIN_OUTPUT_SQNR": "15",
                 "MIN_NETWORK_SQNR": "10", "GITHUB_STEP_SUMMARY": "summary.md"}  # fmt: skip
        for name, command in steps:
            self.run_command(command, **given)
        self.assertIn("| layer |", (self.folder / "summary.md").read_text())
        self.assertEqual(self.gates("quantization.xml"), [0, 0])
        self.assertTrue((self.folder / "quantized.tar.gz").stat().st_size > 1000)
        self.run_command(dict(steps)["Gate"], code=1, **{**given, "MIN_OUTPUT_SQNR": "200"})
        self.assertEqual(self.gates("quantization.xml"), [1, 0])

    def gates(self, path):
        """Failures by gate."""
        suites = xml.etree.ElementTree.parse(self.folder / path).getroot()
        return [int(s.get("failures")) for s in suites.iter("testsuite")]

    def test_gitlab(self):
        steps = shell_steps(SAMPLES / "ci" / "gitlab-ci.yml")
        self.assertEqual([n for n, _ in steps], ["before_script:"] + 3 * ["script:"])
        given = {"MODEL": "model.onnx", "DATA": "calibration/test_data_set_0", "MIN_OUTPUT_SQNR": "15",
                 "MIN_NETWORK_SQNR": "10"}  # fmt: skip
        for _, command in steps:
            self.run_command(command, **given)
        self.assertEqual(self.gates("quantization.xml"), [0, 0])
        self.run_command(steps[-1][1], code=1, **{**given, "MIN_NETWORK_SQNR": "200"})

    def test_gate(self):
        gate = SAMPLES / "ci" / "gate.sh"
        data = "calibration/test_data_set_0"
        self.run_command([gate, "model.onnx", data, "out/"])
        self.assertTrue((self.folder / "out" / "model.onnx").is_file())
        self.assertEqual(self.gates("out.xml"), [0, 0])
        self.assertEqual((self.folder / "out.md").read_text().count("| layer |"), 2)
        told = self.run_command([gate, "model.onnx", data, "out"], code=1, MIN_WEIGHT_SQNR="200")
        self.assertIn("weight_sqnr<200 failed", told)
        self.run_command([gate, "model.onnx", data, "out"], code=1, MIN_OUTPUT_SQNR="200")
        self.run_command([gate, "nowhere.onnx", data, "out"], code=3)
        self.run_command([gate], code=2)

    def test_quantize_all(self):
        script = SAMPLES / "quantize-all.sh"
        models = self.folder / "models"
        for place, model in (("a/qwen", "random-qwen2"), ("b", "random-llama")):
            shutil.copytree(MODELS / model, models / place)
        (models / "bad").mkdir()
        (models / "bad" / "config.json").write_text("{}")
        (models / "bad" / "model.safetensors").write_bytes(b"no")
        (models / "none").mkdir()
        (models / "none" / "config.json").write_text("{}")
        told = self.run_command([script, models, models / "hif8"], code=1)
        self.assertIn("2 quantized, 0 there already, 1 failed: bad", told)
        self.assertTrue((models / "hif8" / "a" / "qwen" / "model.safetensors").is_file())
        shutil.rmtree(models / "bad")
        shutil.rmtree(models / "hif8" / "b")
        told = self.run_command([script, models, models / "hif8", "--recipe", SAMPLES / "recipes/llm-weights-only.yaml"])
        self.assertIn("1 quantized, 1 there already, 0 failed", told)
        self.run_command([script, models], code=2)

    def test_what_is_installed(self):
        for file in ("ci/gate.sh", "quantize-all.sh", "recipes/moe.yaml"):
            path = next(self.prefix.glob(f"share/doc/*/samples/{file}"))
            self.assertEqual(path.read_bytes(), (SAMPLES / file).read_bytes())
            self.assertEqual(os.access(path, os.X_OK), file.endswith(".sh"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
