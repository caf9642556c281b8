"""Runs the commands of the documentation as they stand there: commands_test.py ROOT BIN_DIR [--slow].

A block ```sh is run with bash -e, all blocks of a page one after the other in one folder that has the files which the
page speaks of; a variable that one sets is known to those after it. A block ```text right behind it is what the commands print: words must be equal, numbers nearly so, and a
line '...' stands for any lines. A block ```sh slow needs the network or takes long: these are run in the checkout, page
after page, with --slow; without, only their syntax is checked, and that is said.
"""

import json
import math
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT, BIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
SLOW = "--slow" in sys.argv
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from plain_files import read_file, write_file, write_ids  # noqa: E402

MODELS, CONV = ROOT / "tests" / "data" / "models", ROOT / "tests" / "cli" / "data" / "conv"
# A command that would run this very test.
NOT_RUN = {"tests/run.sh": "this test is a part of it"}
# In this order with --slow: what a newcomer reads first.
TUTORIAL = ["README.md", "docs/tutorial.md", "docs/zh/README.md"]


def blocks(text):
    """(info, content, line) of every fenced block."""
    found, inside = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if inside is None and line.startswith("```"):
            inside = (line[3:].strip(), [], number)
        elif inside is not None and line.strip() == "```":
            found.append((inside[0], "\n".join(inside[1]), inside[2]))
            inside = None
        elif inside is not None:
            inside[1].append(line)
    return found


def larger_checkpoint(source, target, count):
    """The checkpoint with `count` blocks: its own again and again."""
    config = json.loads((source / "config.json").read_text())
    have = config["num_hidden_layers"]
    tensors, _ = read_file(source / "model.safetensors")
    more = {n: t for n, t in tensors.items() if ".layers." not in n}
    for block in range(count):
        prefix = f"model.layers.{block % have}."
        more |= {n.replace(prefix, f"model.layers.{block}.", 1): t for n, t in tensors.items() if n.startswith(prefix)}
    config["num_hidden_layers"] = count
    target.mkdir()
    (target / "config.json").write_text(json.dumps(config))
    write_file(target / "model.safetensors", more)


def capture(folder):
    """What samples/capture would record of the checkpoint `transformer`."""
    import struct

    tensors, _ = read_file(folder / "transformer" / "model.safetensors")
    (folder / "captured").mkdir()
    inputs = {}
    for name, (_, shape, _) in tensors.items():
        if name.endswith("_proj.weight"):
            values = [math.sin(i + 1) for i in range(shape[1])]
            inputs[name[:-7]] = ("F32", [1, shape[1]], struct.pack(f"<{shape[1]}f", *values))
    write_file(folder / "captured" / "0.safetensors", inputs)


def make_folder(folder):
    """The files that the pages speak of, small."""
    shutil.copy(CONV / "model.onnx", folder)
    shutil.copytree(CONV / "test_data_set_0", folder / "calib")
    for name, model in (("Qwen3-8B", "random-qwen2"), ("moe", "random-qwen3-moe"), ("transformer", "random-llama3-rope")):
        shutil.copytree(MODELS / model, folder / name)
    config = json.loads((folder / "transformer" / "config.json").read_text())
    (folder / "transformer" / "config.json").write_text(json.dumps({**config, "model_type": "unknown"}))
    capture(folder)
    larger_checkpoint(MODELS / "random-pangu-embedded", folder / "Pangu-1B", 7)
    ids = [[(5 * i + 3 * s) % 190 for i in range(24)] for s in range(8)]
    write_ids(folder / "ids.npy", ids)
    (folder / "calib.jsonl").write_text("".join(json.dumps({"input_ids": line}) + "\n" for line in ids))
    (folder / "build" / "release").mkdir(parents=True)
    (folder / "build" / "release" / "bin").symlink_to(BIN)
    for name in ("samples", "tests"):
        (folder / name).symlink_to(ROOT / name)


def run(command, folder):
    environment = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", str(folder)),
        "LANG": "C.UTF-8",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS") or k.lower().endswith("_proxy")},
    }
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=2400,
    )  # fmt: skip


def same_word(want, have):
    if want == have:
        return True
    numbers = [re.fullmatch(r"(\D*?)(-?\d+(?:\.\d+)?)(\D*)", w) for w in (want, have)]
    if None in numbers:
        return False
    (a, x, b), (c, y, d) = (n.groups() for n in numbers)
    return (a, b) == (c, d) and math.isclose(float(x), float(y), rel_tol=0.03, abs_tol=0.15)


def same_line(want, have):
    # Bars follow the numbers.
    words = [re.sub(r"[▏▎▍▌▋▊▉█]", "", line).split() for line in (want, have)]
    return len(words[0]) == len(words[1]) and all(map(same_word, *words))


def same_output(want, have):
    if not want:
        return not have
    if want[0].strip() == "...":
        return any(same_output(want[1:], have[i:]) for i in range(len(have) + 1))
    return bool(have) and same_line(want[0], have[0]) and same_output(want[1:], have[1:])


class Checker:
    def __init__(self, state):
        self.problems, self.count = [], 0
        self.state = state  # file of the page's variables

    def check_page(self, page, folder):
        output = None
        self.state.unlink(missing_ok=True)
        for info, content, line in blocks((ROOT / page).read_text(encoding="utf-8")):
            where = f"{page}:{line}"
            if info == "text" and output is not None:
                if not same_output(content.splitlines(), output.splitlines()):
                    self.problems.append(f"{where}: the commands print\n{output}")
                output = None
            elif info == ("sh slow" if SLOW else "sh"):
                output = self.run_block(where, content, folder)
            else:
                output = None
                if info == "sh slow":
                    self.check_syntax(where, content)

    def run_block(self, where, content, folder):
        for command, why in NOT_RUN.items():
            if command in content:
                print(f"{where}: not run: {command}: {why}")
                content = "\n".join(l for l in content.splitlines() if not l.startswith(command))
        state = shlex.quote(str(self.state))
        done = run(f"set -a; if [[ -f {state} ]]; then . {state}; fi\n{content}\nexport -p >{state}", folder)
        self.count += 1
        if done.returncode != 0:
            self.problems.append(f"{where}: exit code {done.returncode}\n{content}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def check_syntax(self, where, content):
        done = subprocess.run(["bash", "-n", "-c", content], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.problems.append(f"{where}: {done.stderr}")
        print(f"{where}: only its syntax was checked; the slow test runs it")


def main():
    state = tempfile.TemporaryDirectory()
    checker = Checker(pathlib.Path(state.name) / "variables")
    pages = TUTORIAL
    if not SLOW:
        pages = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))]
    for page in pages:
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            if SLOW:
                folder = ROOT
            else:
                make_folder(folder)
            checker.check_page(page, folder)
    print("\n".join(checker.problems) or f"{checker.count} blocks ran")
    return 1 if checker.problems or checker.count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
