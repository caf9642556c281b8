"""Runs hif8-report on an original and a quantized checkpoint: pair_test.py BIN_DIR ROOT.

Errors are planted into quantized files with Python alone, and must be found; the numbers of files that nothing was
done to are compared with ones computed here.
"""

import bisect
import csv
import io
import json
import math
import struct
import sys
import unittest

import numpy as np
from pair_case import MODELS, ROOT, PairCase, onnx_model
from plain_files import floats, read_file, sqnr, write_file
from plain_formats import E2M1, nearest
from plain_formats import E4M3 as E4M3_TABLE

LAYER = "model.layers.1.mlp.up_proj"


def e4m3_values():
    """OCP E4M3FN by its definition."""
    values = []
    for code in range(128):
        exponent, fraction = code >> 3, code & 7
        values.append(math.ldexp(fraction, -9) if exponent == 0 else math.ldexp(8 + fraction, exponent - 10))
    return values[:127]  # the last code is NaN


E4M3 = e4m3_values()


def to_e4m3(x):
    a = min(abs(x), 448.0)
    at = bisect.bisect_left(E4M3, a)
    if at > 0 and (at == len(E4M3) or a - E4M3[at - 1] <= E4M3[at] - a):
        at -= 1
    return at | (0x80 if x < 0 else 0)


def e4m3(code):
    return -E4M3[code & 127] if code >= 128 else E4M3[code]


class SafetensorsPair(PairCase):
    def setUp(self):
        super().setUp()
        self.original = MODELS / "random-qwen2"
        self.quantized = self.folder / "quantized"
        self.run_program("hif8-calibrate", self.original, "-o", self.quantized, "--recipe", "cast", "-q")
        self.file = self.quantized / "model.safetensors"
        self.tensors, _ = read_file(self.file)

    def plant(self, change):
        change(self.tensors)
        write_file(self.file, self.tensors)

    def test_a_sound_pair(self):
        own = json.loads((self.quantized / "report.json").read_text())
        report, _ = self.report(self.original, self.quantized, "--fail-if", "unmatched>0", "--fail-if", "weight_sqnr<30")
        self.assertEqual(report["run"]["warnings"], [])
        self.assertEqual(report["unmatched"], [])
        weights = [x for x in own["layers"] if x["op"] != "MatMul"]  # else products of two activations
        self.assertEqual([x["name"] for x in report["layers"]], [x["name"] for x in weights])
        for now, then in zip(report["layers"], weights):
            self.assertEqual(now["status"], then["status"])
            if now["weight"] is None:
                continue
            for field in ("zero_rate", "saturation_rate", "amax", "bytes_before", "bytes_after", "granularity"):
                self.assertEqual(now["weight"][field], then["weight"][field], field)
            self.assertAlmostEqual(now["weight"]["sqnr_db"], then["weight"]["sqnr_db"], places=9)
            self.assertAlmostEqual(now["weight"]["target"], 16, places=4)
            self.assertEqual(now["weight"]["notes"], [])
        self.assertAlmostEqual(report["coverage"]["parameters"], own["coverage"]["parameters"], places=12)
        rows = csv.DictReader(io.StringIO(self.run_program(
            "hif8-report", self.original, self.quantized, "--to", "csv", "--columns", "layer,weight_format").stdout))
        self.assertEqual({r["weight_format"] for r in rows}, {"hif8", ""})
        self.assertIn("| " + LAYER.replace("_", "\\_"), self.run_program(
            "hif8-report", self.original, self.quantized, "--to", "markdown", "--where", "layer=" + LAYER).stdout)

    def test_bare_files(self):
        report, _ = self.report(self.original / "model.safetensors", self.file)
        self.assertEqual(len([x for x in report["layers"] if x["weight"]]), 21)

    def test_a_scale_twice_too_large(self):
        def change(tensors):
            dtype, shape, data = tensors[LAYER + ".weight_scale"]
            doubled = [2 * s for s in floats((dtype, shape, data))]
            tensors[LAYER + ".weight_scale"] = dtype, shape, struct.pack(f"<{len(doubled)}f", *doubled)

        self.plant(change)
        self.expect_found(self.original, self.quantized, LAYER, LAYER + ".weight", "do not belong together", "2 times the original's")

    def test_codes_one_too_high(self):
        def change(tensors):
            dtype, shape, data = tensors[LAYER + ".weight"]
            tensors[LAYER + ".weight"] = dtype, shape, bytes(c + 1 if c % 128 not in (0x6E, 0x6F, 0x7F) else c for c in data)

        self.plant(change)
        self.expect_found(self.original, self.quantized, LAYER, LAYER + ".weight", "do not belong together", below=28)

    def test_codes_one_place_further(self):
        def change(tensors):
            dtype, shape, data = tensors[LAYER + ".weight"]
            tensors[LAYER + ".weight"] = dtype, shape, data[-1:] + data[:-1]

        self.plant(change)
        self.expect_found(self.original, self.quantized, LAYER, LAYER + ".weight", "do not belong together")

    def test_a_single_wrong_code(self):
        def change(tensors):
            dtype, shape, data = tensors[LAYER + ".weight"]
            at = max(range(len(data)), key=lambda i: abs(sqnr_value(data[i])))
            tensors[LAYER + ".weight"] = dtype, shape, data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :]

        def sqnr_value(code):
            return TABLE[code] if math.isfinite(TABLE[code]) else 0

        with open(ROOT / "tests/data/golden/hif8_values.csv", newline="", encoding="utf-8") as file:
            TABLE = [float(row["value"]) for row in csv.DictReader(file)]
        self.plant(change)
        report, _ = self.report(self.original, self.quantized)
        self.assertEqual(len(report["run"]["warnings"]), 1)
        (layer,) = [x for x in report["layers"] if x["name"] == LAYER]
        self.assertIn("1 of 10240 values", layer["weight"]["notes"][-1])

    def test_a_missing_tensor(self):
        self.plant(lambda tensors: [tensors.pop(LAYER + s) for s in (".weight", ".weight_scale")])
        report, _ = self.report(self.original, self.quantized)
        self.assertEqual(report["unmatched"], [{"name": LAYER + ".weight", "in": "original"}])
        _, told = self.report(self.original, self.quantized, "--fail-if", "unmatched>0", code=1)
        self.assertIn("unmatched>0 failed", told)
        text = self.run_program("hif8-report", self.original, self.quantized).stdout
        self.assertIn(f"only in the original model: {LAYER}.weight\n", text)
        _, told = self.report(self.quantized, self.original)  # and the other way round

    def test_scales_that_are_missing_or_no_numbers(self):
        kept = dict(self.tensors)
        self.plant(lambda tensors: tensors.pop(LAYER + ".weight_scale"))
        report, _ = self.report(self.original, self.quantized)
        self.assertEqual(report["run"]["warnings"], [LAYER + ".weight: U8 without scales"])
        self.tensors = kept
        for bad in (math.nan, 0.0, -1.0, 1e-40):
            dtype, shape, data = kept[LAYER + ".weight_scale"]
            kept[LAYER + ".weight_scale"] = dtype, shape, struct.pack("<f", bad) + data[4:]
            self.plant(lambda tensors: None)
            report, _ = self.report(self.original, self.quantized)
            self.assertEqual(report["run"]["warnings"],
                             [f"{LAYER}.weight: 1 of {shape[0]} scales are no positive numbers"], bad)

    def test_a_kept_tensor_that_changed(self):
        def change(tensors):
            dtype, shape, data = tensors["model.norm.weight"]
            tensors["model.norm.weight"] = dtype, shape, b"\x80\x3f" + data[2:]

        self.plant(change)
        report, _ = self.report(self.original, self.quantized)
        (warning,) = report["run"]["warnings"]
        self.assertIn("model.norm.weight: not quantized, but other values", warning)

    def test_other_shapes_and_kinds(self):
        def change(tensors):
            for part in (".weight", ".weight_scale"):
                dtype, (rows, *rest), data = tensors[LAYER + part]
                tensors[LAYER + part] = dtype, [rows - 1, *rest], data[: len(data) // rows * (rows - 1)]

        self.plant(change)
        report, _ = self.report(self.original, self.quantized)
        self.assertIn("the shape is", report["run"]["warnings"][0])
        onnx = self.folder / "m.onnx"
        onnx.write_bytes(onnx_model())
        self.assertIn("of kind", self.run_program("hif8-report", onnx, self.quantized, code=3).stderr)
        write_file(self.folder / "other.safetensors", {"a": ("F32", [1], bytes(4))})
        done = self.run_program("hif8-report", self.original, self.folder / "other.safetensors", code=3)
        self.assertIn("no tensor has the name", done.stderr)
        self.run_program("hif8-report", self.original, "nowhere", code=3)


class Fp8Pair(PairCase):
    """Quantized by other programs: here by Python, from the layouts' descriptions."""

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.weights = {f"layers.{i}.up_proj.weight": (rng.standard_normal((160, 144)) * 0.05).astype("f4") for i in (0, 1)}
        self.original = self.folder / "original.safetensors"
        write_file(self.original, {n: ("F32", list(w.shape), w.tobytes()) for n, w in self.weights.items()})
        self.folder.joinpath("q").mkdir()
        self.file = self.folder / "q" / "model.safetensors"

    def check(self, tensors, decoded, granularity, twice=()):
        write_file(self.file, tensors)
        report, _ = self.report(self.original, self.folder / "q")
        self.assertEqual(report["unmatched"], [])
        self.assertEqual(len(report["run"]["warnings"]), len(twice))
        for layer in report["layers"]:
            name = layer["name"] + ".weight"
            want = sqnr(self.weights[name].ravel().tolist(), decoded[name].ravel().tolist())
            self.assertAlmostEqual(layer["weight"]["sqnr_db"], want, places=4)
            self.assertEqual(layer["weight"]["format"], "fp8_e4m3")
            self.assertEqual(layer["weight"]["granularity"], granularity)

    def encode(self, name, scales, rows, columns):
        """Codes and decoded values with one scale per rows x columns."""
        w = self.weights[name]
        wide = np.repeat(np.repeat(scales, rows, 0), columns, 1)[: w.shape[0], : w.shape[1]].astype("f4")
        codes = np.array([to_e4m3(float(v)) for v in (w / wide).ravel()], "u1").reshape(w.shape)
        values = np.array([e4m3(int(c)) for c in codes.ravel()], "f4").reshape(w.shape)
        return codes, values * wide

    def amax(self, name, rows, columns):
        w = np.abs(self.weights[name])
        return np.array([[w[r : r + rows, c : c + columns].max() for c in range(0, w.shape[1], columns)]
                         for r in range(0, w.shape[0], rows)])  # fmt: skip

    def test_compressed_tensors_per_channel(self):
        (self.folder / "q" / "config.json").write_text(json.dumps(
            {"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized"}}))
        tensors, decoded = {}, {}
        for name in self.weights:
            scales = (self.amax(name, 1, 144) / 448).astype("f4")
            codes, decoded[name] = self.encode(name, scales, 1, 144)
            tensors[name] = ("F8_E4M3", list(codes.shape), codes.tobytes())
            tensors[name + "_scale"] = ("F32", [160, 1], scales.tobytes())
        self.check(tensors, decoded, "channel")

    def test_blocks(self):
        for suffix in ("_scale_inv", "_scale"):
            tensors, decoded = {}, {}
            for name in self.weights:
                scales = (self.amax(name, 128, 128) / 448).astype("f4")
                codes, decoded[name] = self.encode(name, scales, 128, 128)
                tensors[name] = ("F8_E4M3", list(codes.shape), codes.tobytes())
                tensors[name + suffix] = ("F32", [2, 2], scales.tobytes())
            self.check(tensors, decoded, "128x128")
            doubled = 2 * scales
            tensors[name + suffix] = ("F32", [2, 2], doubled.tobytes())
            self.check(tensors, {**decoded, name: 2 * decoded[name]}, "128x128", twice=[name])

    def test_powers_of_two_per_32(self):
        """MXFP8, and MXFP4 with two codes a byte, the first in the low half."""
        e2m1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        tensors, decoded = {}, {}
        eight, four = self.weights
        exponents = {n: np.floor(np.log2(self.amax(n, 1, 32))) - e for n, e in ((eight, 8), (four, 2))}
        codes, decoded[eight] = self.encode(eight, 2.0 ** exponents[eight], 1, 32)
        # 144 is no multiple of 32: the last group of a row is shorter.
        tensors[eight] = ("F8_E4M3", [160, 144], codes.tobytes())
        wide = np.repeat(2.0 ** exponents[four], 32, 1)[:, :144]
        scaled = self.weights[four] / wide
        codes = np.abs(np.abs(scaled)[..., None] - np.array(e2m1)).argmin(-1)
        decoded[four] = (np.array(e2m1)[codes] * np.sign(scaled) * wide).astype("f4")
        codes |= np.where(scaled < 0, 8, 0)
        tensors[four + "_packed"] = ("U8", [160, 72], (codes[:, ::2] | codes[:, 1::2] << 4).astype("u1").tobytes())
        for name in self.weights:
            tensors[name + "_scale"] = ("U8", [160, 5], (exponents[name] + 127).astype("u1").tobytes())
        write_file(self.file, tensors)
        report, _ = self.report(self.original, self.folder / "q")
        self.assertEqual(([], []), (report["unmatched"], report["run"]["warnings"]))
        for layer, form in zip(report["layers"], ("mxfp8", "mxfp4")):
            name = layer["name"] + ".weight"
            want = sqnr(self.weights[name].ravel().tolist(), decoded[name].ravel().tolist())
            self.assertAlmostEqual(layer["weight"]["sqnr_db"], want, places=4)
            self.assertEqual((layer["weight"]["format"], layer["weight"]["granularity"]), (form, "1x32"))

    def test_nvfp4(self):
        """As compressed-tensors stores it: value = code * scale / global scale."""
        f4 = np.float32
        tensors, decoded = {}, {}
        for name, w in self.weights.items():
            global_scale = f4(f4(448 * 6) / np.abs(w).max())
            scales = nearest(E4M3_TABLE, (self.amax(name, 1, 16) / f4(6) * global_scale).astype("f8"))
            wide = np.repeat(E4M3_TABLE[scales].astype(f4) / global_scale, 16, 1)
            codes = nearest(E2M1, np.clip((w / wide).astype("f8"), -6, 6))
            decoded[name] = (E2M1[codes] * wide).astype(f4)
            tensors[name + "_packed"] = ("U8", [160, 72], (codes[:, ::2] | codes[:, 1::2] << 4).astype("u1").tobytes())
            tensors[name + "_scale"] = ("F8_E4M3", [160, 9], scales.astype("u1").tobytes())
            tensors[name + "_global_scale"] = ("F32", [1], global_scale.tobytes())
            tensors[name[: -len("weight")] + "input_global_scale"] = ("F32", [1], f4(3).tobytes())
        for planted in (False, True):
            if planted:  # the number of one tensor as another program has it, which multiplies by it
                tensors[name + "_global_scale"] = ("F32", [1], f4(1 / global_scale).tobytes())
            write_file(self.file, tensors)
            report, _ = self.report(self.original, self.folder / "q")
            self.assertEqual(([], planted), (report["unmatched"], len(report["run"]["warnings"]) == 1))
            for layer in report["layers"][: 1 if planted else 2]:
                weight = layer["name"] + ".weight"
                want = sqnr(self.weights[weight].ravel().tolist(), decoded[weight].ravel().tolist())
                self.assertAlmostEqual(layer["weight"]["sqnr_db"], want, places=4)
                self.assertEqual((layer["weight"]["format"], layer["weight"]["granularity"]), ("nvfp4", "1x16"))

    def test_ours_in_groups_and_blocks(self):
        for settings, granularity in (
            (["format=hif8", "granularity=group"], "1x32"),
            (["format=int8", "granularity=block"], "128x128"),
            (["format=mxfp8", "granularity=block"], "32x32"),
            (["format=nvfp4"], "1x16"),
        ):
            with self.subTest(settings):
                sets = [part for setting in settings for part in ("--set", "weights." + setting)]
                self.run_program("hif8-calibrate", self.original, "-o", "ours", "-q", "--force", "--recipe", "cast", *sets)
                own = json.loads((self.folder / "ours" / "report.json").read_text())
                report, _ = self.report(self.original, self.folder / "ours")
                self.assertEqual((report["unmatched"], report["run"]["warnings"]), ([], []))
                for now, then in zip(report["layers"], own["layers"], strict=True):
                    self.assertEqual(now["weight"]["granularity"], granularity)
                    self.assertEqual(now["weight"]["format"], then["weight"]["format"])
                    self.assertAlmostEqual(now["weight"]["sqnr_db"], then["weight"]["sqnr_db"], places=9)

    def test_ours(self):
        self.run_program("hif8-calibrate", self.original, "-o", "ours", "--set", "weights.format=fp8_e4m3", "-q")
        report, _ = self.report(self.original, self.folder / "ours")
        self.assertEqual(report["run"]["warnings"], [])
        self.assertEqual({x["weight"]["format"] for x in report["layers"]}, {"fp8_e4m3"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
