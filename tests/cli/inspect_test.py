"""Runs hif8-report inspect: inspect_test.py BIN_DIR ROOT. Its numbers are computed here from the files as well."""

import json
import math
import struct
import sys
import unittest

from pair_case import MODELS, PairCase
from plain_files import floats, read_file, write_file


class Inspect(PairCase):
    def inspect(self, *args):
        return json.loads(self.run_program("hif8-report", "inspect", *args, "--json", "-q").stdout)

    def test_magnitudes(self):
        model = MODELS / "random-qwen2"
        sources, _ = read_file(model / "model.safetensors")
        found = self.inspect(model)
        self.assertEqual([t["name"] for t in found["tensors"]], list(sources))
        self.assertEqual(found["parameters"], sum(math.prod(s[1]) for s in sources.values()))
        total = {}
        for tensor in found["tensors"]:
            values = floats(sources[tensor["name"]])
            self.assertEqual(tensor["amax"], max(map(abs, values)))
            self.assertAlmostEqual(tensor["rms"], math.sqrt(sum(v * v for v in values) / len(values)), places=12)
            self.assertEqual(tensor["zeros"], sum(v == 0 for v in values))
            exponents = {}
            for v in values:
                if v != 0:
                    e = str(math.frexp(v)[1] - 1)
                    exponents[e] = exponents.get(e, 0) + 1
            self.assertEqual(tensor["exponents"], exponents, tensor["name"])
            total = {e: total.get(e, 0) + exponents.get(e, 0) for e in {*total, *exponents}}
        self.assertEqual(found["exponents"], total)

    def test_what_a_recipe_would_do(self):
        def plans(*args):
            return {t["name"]: t["plan"] for t in self.inspect(*args)["tensors"] if t["plan"]}

        model = MODELS / "random-pangu-embedded"
        planned = self.run_program("hif8-calibrate", model, "--dry-run", "--json", "--recipe", "pangu-qat").stdout
        want = {x["layer"] + ".weight": x for x in json.loads(planned)["layers"]}
        found = plans(model, "--recipe", "pangu-qat")
        self.assertEqual(len(found), 37)
        for name, plan in found.items():
            reason = want[name]["reason"]
            self.assertEqual(plan, "kept: " + reason if reason else "hif8 tensor max")

    def test_non_finite_and_other_types(self):
        write_file(self.folder / "a.safetensors", {
            "a.weight": ("F32", [2, 3], struct.pack("<6f", 1, -4, 0, math.inf, math.nan, 0.5)),
            "ids": ("I64", [1], bytes(8)),
        })  # fmt: skip
        a, ids = self.inspect(self.folder / "a.safetensors")["tensors"]
        self.assertEqual((a["amax"], a["zeros"], a["non_finite"]), (4, 1, 2))
        self.assertEqual(a["exponents"], {"-1": 1, "0": 1, "2": 1})
        self.assertEqual((ids["amax"], ids["unknown"]), (None, "I64 without scales"))

    def test_what_is_quantized_already(self):
        self.run_program("hif8-calibrate", MODELS / "random-qwen2", "-o", "q", "--recipe", "cast", "-q")
        found = self.inspect(self.folder / "q")
        original = self.inspect(MODELS / "random-qwen2")
        self.assertIn("no plan: the checkpoint is already quantized", found["plan"])
        for now, then in zip(found["tensors"], original["tensors"], strict=True):
            self.assertEqual(now["name"], then["name"])
            self.assertAlmostEqual(now["rms"] / then["rms"], 1, delta=0.01)
        self.assertEqual({t["format"] for t in found["tensors"]}, {"", "hif8"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
