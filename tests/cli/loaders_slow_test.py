"""What public loaders make of written checkpoints: loaders_slow_test.py HIF8_CALIBRATE DATA_DIR [--table] [MODEL...].

tests/data/loaders/loaders.py restates the rules of each loader in numpy. No layer may be taken for something that it is not,
except where a form cannot be told apart (NO_TELLING), and what a loader is said to take (LOADS) it must take at the SQNR of the
report. --table prints the table of docs/checkpoints.md; more models may be given.
"""

import collections
import pathlib
import subprocess
import sys
import unittest

from program_case import PROGRAM, CalibrateCase

DATA = pathlib.Path(sys.argv[2]).resolve()
TABLE = "--table" in sys.argv
sys.path.insert(0, str(DATA / "loaders"))
import loaders  # noqa: E402

NAMES = ["random-qwen2", "random-pangu-embedded", "random-qwen3-moe", "random-deepseek-v3-fp8", "families/random-deepseek-v32"]
MODELS = [DATA / "models" / name for name in NAMES] + [pathlib.Path(path) for path in sys.argv[3:] if path != "--table"]
LAYOUTS = ["compressed-tensors", "cann", "ascendv1"]
COLUMNS = ["cann", "vllm", "vllm-old", "sglang", "tensorrt-llm", "vllm-ascend", "ascendv1", "mindie"]


def both(name, more="", weights=""):
    return f"weights: {{format: {name}{weights}}}\nactivations: {{format: {name}{more}}}\n"


RECIPES = {
    "cast": "cast",
    "weight-only": "weight-only",
    "inference": "inference",
    "HiF8, inputs per token": "activations: {granularity: token}\n",
    "pangu-qat": "pangu-qat",
    "w4a8-moe": "w4a8-moe",
    "FP8 row, weight-only": "weights: {format: fp8_e4m3}\nactivations: {rule: off}\n",
    "FP8 row, token": both("fp8_e4m3", ", granularity: token"),
    "FP8 row, static": both("fp8_e4m3"),
    "FP8 tensor, static": both("fp8_e4m3", weights=", granularity: tensor"),
    "FP8 128 x 128": both("fp8_e4m3_block"),
    # Several loaders keep the scales of INT8 in BF16.
    "INT8 row, token": both("int8", ", granularity: token", ", scale_dtype: bf16"),
    "INT8 row, static": both("int8", weights=", scale_dtype: bf16"),
    "INT8 row, weight-only": "weights: {format: int8, scale_dtype: bf16}\nactivations: {rule: off}\n",
    "MXFP8": both("mxfp8"),
    "MXFP4": both("mxfp4"),
    "MXFP4, weight-only": "weights: {format: mxfp4}\nactivations: {rule: off}\n",
}
DENSE, EXPERTS = {"random-qwen2", "random-pangu-embedded", "tiny-qwen3"}, {"random-qwen3-moe"}
ALL = DENSE | EXPERTS
# By layout and recipe: who takes every layer of which models. deepseek-v3 here has shapes that suit no operator of MX or blocks.
LOADS = {
    ("compressed-tensors", "FP8 row, weight-only"): {"vllm": DENSE, "vllm-old": DENSE},
    ("compressed-tensors", "MXFP4, weight-only"): {"vllm": DENSE, "vllm-old": DENSE},
    ("compressed-tensors", "FP8 row, token"): {"vllm": ALL, "vllm-old": ALL, "sglang": ALL, "tensorrt-llm": ALL, "vllm-ascend": ALL},
    ("compressed-tensors", "FP8 row, static"): {"vllm": DENSE, "vllm-old": DENSE, "sglang": DENSE},
    ("compressed-tensors", "FP8 tensor, static"): {"vllm": ALL, "vllm-old": ALL, "sglang": ALL},
    ("compressed-tensors", "FP8 128 x 128"): {"tensorrt-llm": ALL, "vllm": {"tiny-qwen3"}},
    ("compressed-tensors", "INT8 row, token"): {"cann": ALL, "vllm": ALL, "vllm-old": ALL, "sglang": ALL, "vllm-ascend": ALL},
    ("compressed-tensors", "INT8 row, static"): {"vllm": DENSE, "vllm-old": DENSE, "sglang": DENSE, "vllm-ascend": DENSE},
    ("compressed-tensors", "MXFP8"): {"vllm": DENSE, "vllm-old": DENSE},
    ("compressed-tensors", "MXFP4"): {"vllm": DENSE, "vllm-old": DENSE, "tensorrt-llm": DENSE},
    ("cann", "cast"): {"cann": DENSE},
    ("cann", "w4a8-moe"): {"cann": ALL},
    ("cann", "FP8 128 x 128"): {"cann": {"tiny-qwen3"}},
    ("cann", "INT8 row, token"): {"cann": ALL | {"random-deepseek-v32", "random-deepseek-v3-fp8", "random-deepseek-v3"}},
    ("cann", "MXFP8"): {"cann": ALL},
    ("cann", "MXFP4"): {"cann": ALL},
    ("ascendv1", "FP8 row, token"): {"ascendv1": ALL},
    ("ascendv1", "INT8 row, token"): {"ascendv1": ALL, "mindie": ALL},
    ("ascendv1", "INT8 row, static"): {"ascendv1": DENSE, "mindie": DENSE},
    ("ascendv1", "MXFP8"): {"ascendv1": DENSE},
    ("ascendv1", "MXFP4"): {"ascendv1": DENSE},
}  # fmt: skip
# The loader does not look at what would tell it: FP8 static is INT8 to vllm-ascend, HiF8 codes with inputs per token are FP8
# to TensorRT-LLM, and SGLang sees the top level only, which layout cann must give another name. cann chooses the scheme of FP8
# blocks, but looks for their scales under another name and misses nothing.
NO_TELLING = {
    ("compressed-tensors", "FP8 row, static", "vllm-ascend"), ("compressed-tensors", "HiF8, inputs per token", "tensorrt-llm"),
    ("compressed-tensors", "FP8 128 x 128", "cann"), ("cann", "cast", "sglang"), ("cann", "w4a8-moe", "sglang"),
}  # fmt: skip
# pangu-qat is for dense networks; one scale for a whole tensor leaves less than 25 dB where rows differ much; blocks of FP8 that are encoded again have the bytes of their source, which the simulators
# take for a layer that is not quantized.
LEFT_OUT = {
    "pangu-qat": {"random-qwen3-moe", "random-deepseek-v3-fp8", "random-deepseek-v3", "random-deepseek-v32"}, "FP8 128 x 128": {"random-deepseek-v3-fp8"}, "FP8 tensor, static": {"random-deepseek-v3-fp8"},
}  # fmt: skip
# Inputs that are no whole pairs of groups of 32, for which neither layout has an operator.
KEPT = {("random-qwen2", "cann", "MXFP8"): "down_proj", ("random-qwen2", "cann", "MXFP4"): "down_proj"}


class LoadersTest(CalibrateCase):
    def write(self, layout, name, model):
        """The report; None where the layout refuses before the run."""
        recipe = RECIPES[name]
        if "\n" in recipe:
            path = self.folder / "recipe.yaml"
            path.write_text("version: 1\n" + recipe)
            recipe = path
        args = ["--recipe", recipe, "-q", "--layout", layout]
        if name != "cast":
            args += ["--data", self.ids(range(40), range(50, 90))]
        if name == "pangu-qat":
            args += ["--set", "high_precision_layers=1"]
        if layout == "cann" and name == "w4a8-moe":
            args += ["--activation-scale", "cast"]
        if model.name.endswith("-fp8"):  # the simulators take what is decoded for quantized
            args += ["--set", "policy=none"]
        if keep := KEPT.get((model.name, layout, name)):
            args += ["--keep", keep]
        done = subprocess.run([str(a) for a in [PROGRAM, model, "-o", self.out, "--force", *args]], capture_output=True, text=True)
        if done.returncode == 2:
            self.assertIn(f"layout {layout} cannot hold", done.stderr)
            return None
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.report()

    def report(self):
        return loaders.json.loads((self.out / "report.json").read_text())

    def check_loads(self, rows, report):
        sqnr = {layer["name"]: layer["weight"]["sqnr_db"] for layer in report["layers"] if layer["status"] == "quantized"}
        taken = [row for row in rows if row["quantized"]]
        self.assertEqual({row["layer"] for row in taken}, set(sqnr))
        for row in taken:
            self.assertEqual(row["verdict"], "right", row)
            self.assertAlmostEqual(row["weight_sqnr"], sqnr[row["layer"]], delta=0.1, msg=row["layer"])

    def test_no_layer_is_taken_for_something_else(self):
        verdicts = collections.defaultdict(set)
        for layout in LAYOUTS:
            for name in RECIPES:
                for model in [m for m in MODELS if m.name not in LEFT_OUT.get(name, ())]:
                    with self.subTest(layout=layout, recipe=name, model=model.name):
                        self.check(layout, name, model, verdicts)
        for pair in NO_TELLING:
            self.assertIn("misread", verdicts[pair], "the exception is none any more")
        if TABLE:
            print_table(verdicts)

    def check(self, layout, name, model, verdicts):
        must = {loader for loader, models in LOADS.get((layout, name), {}).items() if model.name in models}
        report = self.write(layout, name, model)
        if report is None:
            self.assertFalse(must, "refused before the run")
            for loader in COLUMNS:
                verdicts[layout, name, loader].add("unwritten")
            return
        for loader, rows in loaders.check(str(model), str(self.out)).items():
            for row in rows:
                if row["quantized"] or row["verdict"] == "misread":
                    verdicts[layout, name, loader].add(row["verdict"])
            with self.subTest(loader=loader):
                if (layout, name, loader) not in NO_TELLING:
                    self.assertEqual([row for row in rows if row["verdict"] == "misread"], [])
                if loader in must:
                    self.check_loads(rows, report)


def print_table(verdicts):
    words = {"right": "yes", "misread": "**wrong**", "refused": "no", "unwritten": "-"}
    print("| layout | recipe | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for layout in LAYOUTS:
        for name in RECIPES:
            cells = [", ".join(words[v] for v in words if v in verdicts[layout, name, c]) for c in COLUMNS]
            if set(cells) != {"-"}:
                print(f"| {layout} | {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
