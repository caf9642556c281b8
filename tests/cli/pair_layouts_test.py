"""hif8-report on an original and what each layout makes of it: pair_layouts_test.py BIN_DIR ROOT."""

import json
import unittest

import numpy as np
from pair_case import MODELS, PairCase
from plain_files import read_file, write_file, write_ids


def both(name, more=""):
    return f"version: 1\nweights: {{format: {name}}}\nactivations: {{format: {name}{more}}}\n"


CASES = [
    ("random-qwen2", "cann", "version: 1\nactivations: {rule: cast}\n", ()),
    ("random-qwen2", "cann", both("mxfp4"), ("--keep", "down_proj")),
    ("random-qwen3-moe", "cann", both("mxfp8"), ()),
    ("random-qwen2", "cann", both("fp8_e4m3_block"), ("--only", "o_proj")),
    ("random-qwen2", "ascendv1", both("int8"), ()),
    ("random-qwen2", "ascendv1", both("fp8_e4m3", ", granularity: token"), ()),
    ("random-qwen2", "ascendv1", both("mxfp4"), ()),
]


class LayoutPair(PairCase):
    def test_the_numbers_are_those_of_the_run(self):
        ids = self.folder / "ids.npy"
        write_ids(ids, [list(range(40))])
        for i, (model, layout, recipe, more) in enumerate(CASES):
            with self.subTest(layout=layout, recipe=recipe):
                path, out = self.folder / "recipe.yaml", self.folder / f"out{i}"
                path.write_text(recipe)
                self.run_program("hif8-calibrate", MODELS / model, "-o", out, "--recipe", path, "--layout", layout, "-q", "--data", ids, *more)
                run = json.loads((out / "report.json").read_text())
                report, _ = self.report(MODELS / model, out)
                self.assertEqual(report["run"]["warnings"], [])
                self.assertEqual(report["unmatched"], [])
                expected = {x["name"]: x["weight"] for x in run["layers"] if x["status"] == "quantized"}
                found = {x["name"]: x["weight"] for x in report["layers"] if x["status"] == "quantized"}
                self.assertEqual(set(found), set(expected))
                for name, weight in found.items():
                    self.assertEqual(weight["format"], expected[name]["format"].removesuffix("_block"))
                    self.assertAlmostEqual(weight["sqnr_db"], expected[name]["sqnr_db"], delta=1e-3)

    def test_a_bias_that_was_not_divided(self):
        out = self.folder / "out"
        self.run_program("hif8-calibrate", MODELS / "random-qwen2", "-o", out, "--recipe", "cast", "--layout", "cann", "-q")
        tensors, metadata = read_file(out / "model.safetensors")
        name = "model.layers.0.self_attn.q_proj.bias"
        tensors[name] = read_file(MODELS / "random-qwen2" / "model.safetensors")[0][name]
        write_file(out / "model.safetensors", tensors, metadata)
        report, _ = self.report(MODELS / "random-qwen2", out)
        self.assertTrue(any(w.startswith(name + ": not quantized, but other values") for w in report["run"]["warnings"]))

    def test_as_ascends_converter_writes(self):
        """X.scale beside U8, F8_E4M3 and I8 codes, made by hand."""
        rng = np.random.default_rng(2)
        values = {name: rng.standard_normal((4, 64)).astype("f4") for name in ("layers.0.attn.wq_a", "layers.0.ffn.experts.0.w1", "layers.0.attn.wkv")}
        original = self.folder / "original"
        original.mkdir()
        write_file(original / "model.safetensors", {f"{n}.weight": ("F32", [4, 64], v.tobytes()) for n, v in values.items()})
        one, two, three = values.values()
        written = {}
        # HiF8: +-1, as 0x08 and 0x88; a value's sign times the scale of its row.
        scale = np.full((4, 1), 0.5, "f4")
        written["layers.0.attn.wq_a.weight"] = ("U8", [4, 64], np.where(one < 0, 0x88, 8).astype("u1").tobytes())
        written["layers.0.attn.wq_a.scale"] = ("F32", [4, 1], scale.tobytes())
        # MXFP4: +-1 (2 and 10), the first of two in the low half, scale 2^-1.
        nibbles = np.where(two < 0, 10, 2).astype("u1")
        written["layers.0.ffn.experts.0.w1.weight"] = ("I8", [4, 32], (nibbles[:, ::2] | nibbles[:, 1::2] << 4).tobytes())
        written["layers.0.ffn.experts.0.w1.scale"] = ("F8_E8M0", [4, 2], bytes([126] * 8))
        # FP8 in blocks: +-1 (0x38), one block.
        written["layers.0.attn.wkv.weight"] = ("F8_E4M3", [4, 64], np.where(three < 0, 0xB8, 0x38).astype("u1").tobytes())
        written["layers.0.attn.wkv.scale"] = ("F32", [1, 1], np.float32([0.5]).tobytes())
        folder = self.folder / "converted"
        folder.mkdir()
        write_file(folder / "model.safetensors", written)
        report, _ = self.report(original, folder)
        self.assertEqual(report["unmatched"], [])
        formats = {x["name"]: x["weight"]["format"] for x in report["layers"]}
        self.assertEqual(list(formats.values()), ["hif8", "fp8_e4m3", "mxfp4"] if list(formats)[1].endswith("wkv") else ["hif8", "mxfp4", "fp8_e4m3"])
        for layer in report["layers"]:
            x = values[layer["name"]].astype("f8")
            noise = ((x - np.where(x < 0, -0.5, 0.5)) ** 2).sum()
            self.assertAlmostEqual(layer["weight"]["sqnr_db"], 10 * np.log10((x**2).sum() / noise), delta=1e-3)


if __name__ == "__main__":
    unittest.main(argv=["pair_layouts_test.py"])
