"""What public loaders make of written checkpoints: loaders_slow_test.py HIF8_CALIBRATE DATA_DIR [--table].

tests/data/loaders/loaders.py restates the rules of each loader in numpy. No layer may be taken for something that it is not,
except where a form cannot be told apart (NO_TELLING). --table prints the table of docs/checkpoints.md instead.
"""

import collections
import pathlib
import sys
import unittest

from program_case import CalibrateCase

DATA = pathlib.Path(sys.argv[2]).resolve()
TABLE = "--table" in sys.argv
sys.path.insert(0, str(DATA / "loaders"))
import loaders  # noqa: E402

MODELS = ["random-qwen2", "random-pangu-embedded", "random-qwen3-moe", "random-deepseek-v3-fp8"]
FP8 = "weights: {format: fp8_e4m3}\nactivations: {format: fp8_e4m3"
RECIPES = {
    "cast": "cast",
    "inference": "inference",
    "HiF8, inputs per token": "activations: {granularity: token}\n",
    "pangu-qat": "pangu-qat",
    "w4a8-moe": "w4a8-moe",
    "FP8 row, token": FP8 + ", granularity: token}\n",
    "FP8 row, static": FP8 + "}\n",
    "FP8 128 x 128": "weights: {format: fp8_e4m3_block}\nactivations: {format: fp8_e4m3_block}\n",
    "INT8 row, token": "weights: {format: int8}\nactivations: {format: int8, granularity: token}\n",
    "MXFP8": "weights: {format: mxfp8}\nactivations: {format: mxfp8}\n",
    "MXFP4": "weights: {format: mxfp4}\nactivations: {format: mxfp4}\n",
}
# The loader does not look at what would tell it: FP8 static is INT8 to vllm-ascend, HiF8 codes with inputs per token are FP8
# to TensorRT-LLM. cann chooses the scheme of FP8 blocks, but looks for their scales under another name and misses nothing.
NO_TELLING = {
    ("FP8 row, static", "vllm-ascend"), ("HiF8, inputs per token", "tensorrt-llm"), ("FP8 128 x 128", "cann"),
}  # fmt: skip
# pangu-qat is for dense networks; blocks of FP8 that are encoded again have the bytes of their source, which the simulators
# take for a layer that is not quantized.
LEFT_OUT = {
    "pangu-qat": {"random-qwen3-moe", "random-deepseek-v3-fp8"}, "FP8 128 x 128": {"random-deepseek-v3-fp8"},
}  # fmt: skip


class LoadersTest(CalibrateCase):
    def quantized(self, model, recipe):
        if "\n" in recipe:
            path = self.folder / "recipe.yaml"
            path.write_text("version: 1\n" + recipe)
            recipe = path
        data = () if recipe == "cast" else ("--data", self.ids(range(40), range(50, 90)))
        few_blocks = ("--set", "high_precision_layers=1") if recipe == "pangu-qat" else ()
        self.quantize(MODELS_DIR / model, "--recipe", recipe, "-q", *data, *few_blocks)
        return self.out

    def test_no_layer_is_taken_for_something_else(self):
        verdicts = collections.defaultdict(set)
        for name, recipe in RECIPES.items():
            for model in [m for m in MODELS if m not in LEFT_OUT.get(name, ())]:
                found = loaders.check(str(MODELS_DIR / model), str(self.quantized(model, recipe)))
                for loader, rows in found.items():
                    for row in rows:
                        if row["quantized"] or row["verdict"] == "misread":
                            verdicts[name, loader].add(row["verdict"])
                    wrong = [row for row in rows if row["verdict"] == "misread"]
                    with self.subTest(recipe=name, model=model, loader=loader):
                        if (name, loader) in NO_TELLING:
                            continue
                        self.assertEqual(wrong, [])
        for pair in NO_TELLING:
            self.assertIn("misread", verdicts[pair], "the exception is none any more")
        # That loaders can take anything at all is seen in what they take.
        for pair in ("FP8 row, token", "vllm"), ("INT8 row, token", "vllm-ascend"), ("MXFP8", "vllm"), ("MXFP4", "tensorrt-llm"):
            self.assertIn("right", verdicts[pair], pair)
        if TABLE:
            print_table(verdicts)


def print_table(verdicts):
    words = {"right": "yes", "refused": "no", "misread": "**wrong**"}
    columns = [name for name in loaders.LOADERS if name not in ("ascendv1", "mindie", "cann-v4", "cann-fp8")]
    print("| recipe | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in RECIPES:
        cells = [", ".join(words[v] for v in ("right", "misread", "refused") if v in verdicts[name, c]) or "-" for c in columns]
        print(f"| {name} | " + " | ".join(cells) + " |")


MODELS_DIR = DATA / "models"

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
