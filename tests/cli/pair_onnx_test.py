"""Runs hif8-report on an original and a quantized ONNX model: pair_onnx_test.py BIN_DIR ROOT.

Errors are planted into quantized files with Python alone, and must be found.
"""

import json
import sys
import unittest

import numpy as np
from onnx_emit import fields_of, message
from pair_case import RNG, PairCase, onnx_model


class OnnxPair(PairCase):
    def setUp(self):
        super().setUp()
        self.original = self.folder / "m.onnx"
        self.original.write_bytes(onnx_model())
        np.save(self.folder / "x.npy", RNG.standard_normal((8, 48)).astype("f4"))
        self.quantized = self.folder / "out"
        self.run_program("hif8-calibrate", "m.onnx", "--data", "x.npy", "-o", "out", "-q")
        self.file = self.quantized / "model.onnx"

    def edit(self, of_graph):
        """Rewrites the graph's fields: of_graph takes and returns a list of (number, value)."""
        fields = fields_of(self.file.read_bytes())
        self.file.write_bytes(message([(n, of_graph(fields_of(v)) if n == 7 else v) for n, v in fields]))

    def edit_tensor(self, name, change):
        found = []

        def of_graph(fields):
            result = []
            for number, content in fields:
                if number == 5 and (8, name.encode()) in fields_of(content):
                    found.append(name)
                    content = message([(n, change(v) if n == 9 else v) for n, v in fields_of(content)])
                result.append((number, content))
            return result

        self.edit(of_graph)
        self.assertEqual(found, [name])

    def test_a_sound_pair(self):
        own = json.loads((self.quantized / "report.json").read_text())
        report, _ = self.report(self.original, self.file, "--fail-if", "unmatched>0")
        self.assertEqual((report["run"]["warnings"], report["unmatched"]), ([], []))
        for now, then in zip(report["layers"], own["layers"], strict=True):
            self.assertEqual((now["name"], now["op"]), (then["name"], then["op"]))
            self.assertAlmostEqual(now["weight"]["sqnr_db"], then["weight"]["sqnr_db"], places=9)
        self.assertEqual(self.report(self.original, self.quantized)[0]["layers"], report["layers"])

    def test_a_scale_twice_too_large(self):
        self.edit_tensor("w1_scale", lambda data: (2 * np.frombuffer(data, "f4")).tobytes())
        self.expect_found(self.original, self.file, "second", "w1", "2 times the original's")

    def test_codes_one_place_further(self):
        self.edit_tensor("w1_codes", lambda data: data[-1:] + data[:-1])
        self.expect_found(self.original, self.file, "second", "w1", "do not belong together")

    def test_codes_one_too_high(self):
        self.edit_tensor("w1_codes", lambda data: bytes(c + 1 if c % 128 not in (0x6E, 0x6F, 0x7F) else c for c in data))
        self.expect_found(self.original, self.file, "second", "w1", "do not belong together", below=28)

    def test_a_missing_tensor(self):
        def of_graph(fields):
            """Without w2: its codes, its scales, the node that decodes them, and the layer does nothing."""
            result = []
            for number, content in fields:
                inside = fields_of(content) if number in (1, 5) else []
                if number == 5 and (8, b"w2_codes") in inside or (8, b"w2_scale") in inside:
                    continue
                if number == 1 and (2, b"w2") in inside:
                    continue
                if number == 1 and (3, b"third") in inside:
                    content = message([f if f[0] != 4 else (4, "Identity") for f in inside if f != (1, b"w2")])
                result.append((number, content))
            return result

        self.edit(of_graph)
        report, _ = self.report(self.original, self.file)
        self.assertEqual(report["unmatched"], [{"name": "w2", "in": "original"}])
        self.report(self.original, self.file, "--fail-if", "unmatched>0", code=1)

    def test_a_graph_that_lost_its_codes_is_refused(self):
        self.edit(lambda fields: [f for f in fields if f[0] != 5 or (8, b"w1_codes") not in fields_of(f[1])])
        done = self.run_program("hif8-report", self.original, self.file, code=3)
        self.assertIn("reads 'w1_codes', which nothing defines", done.stderr)

    def test_simulated(self):
        self.run_program("hif8-calibrate", "m.onnx", "--data", "x.npy", "-o", "sim", "-q", "--export", "simulated")
        report, _ = self.report(self.original, self.folder / "sim")
        self.assertEqual(report["run"]["warnings"], [])
        self.assertEqual({x["weight"]["format"] for x in report["layers"]}, {"F32"})
        exact, _ = self.report(self.original, self.quantized)
        for a, b in zip(report["layers"], exact["layers"]):
            self.assertAlmostEqual(a["weight"]["sqnr_db"], b["weight"]["sqnr_db"], places=6)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
