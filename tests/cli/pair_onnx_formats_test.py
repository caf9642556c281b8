"""hif8-report on pairs of ONNX files in every number format: pair_onnx_formats_test.py BIN_DIR ROOT.

Files are written by hif8-calibrate and, in the standard way, by this test. What a weight's SQNR must be follows from the
written bytes, decoded with numpy.
"""

import json
import sys
import unittest

import numpy as np
from onnx_emit import Graph, fields_of, message, model, node, raw, tensor, value
from pair_case import ROOT, PairCase
from plain_formats import E4M3, E5M2, hif8, nearest
from plain_onnx import F8_E4M3, F8_E5M2, Decoder, sqnr

HIF8 = hif8(ROOT / "tests" / "data")
RNG = np.random.default_rng(5)
# Products one after the other: inputs that fill groups, that are fewer than one group's, odd numbers, a tail.
SHAPES = [(64, 20), (20, 33), (33, 161), (161, 48), (48, 7)]
WEIGHTS = {f"w{i}": (RNG.standard_t(5, shape) * 0.1).astype("f4") for i, shape in enumerate(SHAPES)}
# Format, settings of weights, operator set.
WRITTEN = [
    ("hif8", {}, 17), ("hif8", {"granularity": "tensor"}, 9), ("hif8", {"granularity": "block"}, 13),
    ("fp8_e4m3", {}, 17), ("fp8_e4m3", {}, 19), ("fp8_e4m3", {"granularity": "tensor"}, 21),
    ("fp8_e4m3", {"granularity": "group"}, 21), ("fp8_e5m2", {}, 19), ("fp8_e4m3_block", {}, 19),
    ("mxfp8", {}, 17), ("mxfp8", {"granularity": "block"}, 21), ("mxfp4", {}, 17), ("mxfp4", {}, 21),
    ("nvfp4", {}, 13), ("nvfp4", {}, 21), ("int8", {}, 17), ("int8", {"granularity": "group"}, 21),
]  # fmt: skip


def network(opset=17, weights=None, nodes=None, tensors=()):
    usual = [node("MatMul", f"x{i} w{i}", f"x{i + 1}", f"layer{i}") for i in range(len(SHAPES))]
    graph = Graph([value("x0", ["n", 64])], [value(f"x{len(SHAPES)}", None)], nodes or usual,
                  WEIGHTS if weights is None else weights, tensors)  # fmt: skip
    return model(graph, opset=opset)


class Pairs(PairCase):
    def setUp(self):
        super().setUp()
        self.original = self.folder / "m.onnx"
        self.original.write_bytes(network())
        self.file = self.folder / "out" / "model.onnx"
        np.save(self.folder / "x.npy", RNG.standard_normal((8, 64)).astype("f4"))

    def check(self, number_format, warnings=(), weights=WEIGHTS):
        """Every weight's SQNR is what numpy finds; returns the report."""
        report, _ = self.report(self.original, self.file)
        self.assertEqual(report["unmatched"], [])
        self.assertEqual(report["run"]["warnings"], list(warnings))
        self.assertEqual([x["name"] for x in report["layers"]], [f"layer{i}" for i in range(len(weights))])
        decoder = Decoder(self.file, HIF8)
        for layer, name in zip(report["layers"], weights):
            self.assertEqual(layer["weight"]["format"], number_format, name)
            decoded = decoder.value(self.decoded_name(name)).reshape(weights[name].shape)
            self.assertAlmostEqual(layer["weight"]["sqnr_db"], sqnr(weights[name], decoded), places=9, msg=name)
        return report

    @staticmethod
    def decoded_name(name):
        return name

    def check_exponents(self, layer, weight, scales):
        """Histograms of the weight and of the weight divided by its scales."""
        for field, values in (("exponents_before", weight), ("exponents_after", (weight / scales).astype("f4"))):
            told = layer["weight"][field]
            exponents, counts = np.unique(np.frexp(values[values != 0])[1] - 1, return_counts=True)
            found = {told["first"] + i: n for i, n in enumerate(told["counts"]) if n}
            self.assertEqual(found, dict(zip(exponents.tolist(), counts.tolist())), field)
            self.assertEqual(told["zeros"], int((values == 0).sum()))
            everything = sum(b["share"] for b in told["bands"]) + told["below"] + told["above"] + told["zeros"] / values.size
            self.assertAlmostEqual(everything, 1, places=9)


class WrittenByCalibrate(Pairs):
    def quantize(self, number_format, settings, opset, *more):
        self.original.write_bytes(network(opset))
        weights = {"format": number_format, **settings}
        args = [a for k, v in weights.items() for a in ("--set", f"weights.{k}={v}")]
        self.run_program("hif8-calibrate", "m.onnx", "--data", "x.npy", "-o", "out", "-q", "--force", *args, *more)
        return json.loads((self.folder / "out" / "report.json").read_text())

    def test_every_format(self):
        for number_format, settings, opset in WRITTEN:
            with self.subTest(number_format, opset=opset, **settings):
                own = self.quantize(number_format, settings, opset)
                report = self.check(number_format)
                for now, then in zip(report["layers"], own["layers"], strict=True):
                    for field in ("sqnr_db", "zero_rate", "bytes_before"):
                        self.assertAlmostEqual(now["weight"][field], then["weight"][field], places=9, msg=field)
                self.assertAlmostEqual(report["coverage"]["parameters"], own["coverage"]["parameters"], places=12)

    def test_scales_of_activations_are_no_tensors(self):
        for granularity in ("tensor", "token", "group"):
            rule = ["--set", "activations.rule=percentile"] if granularity == "tensor" else []
            self.quantize("hif8", {}, 17, "--set", "activations.format=int8",
                          "--set", f"activations.granularity={granularity}", *rule)  # fmt: skip
            self.check("hif8")

    def test_a_weight_that_the_graph_computes(self):
        """A few columns of a table that another layer reads as a whole."""
        table = {"w": (RNG.standard_normal((64, 40)) * 0.1).astype("f4"), "places": np.arange(7, dtype="i8")}
        nodes = [node("Gather", "w places", "few", "columns", axis=1), node("MatMul", "x0 w", "all", "first"),
                 node("MatMul", "x0 few", "some", "second"), node("Concat", "all some", "x5", "join", axis=1)]  # fmt: skip
        self.original.write_bytes(network(17, table, nodes))
        self.run_program("hif8-calibrate", "m.onnx", "--data", "x.npy", "-o", "out", "-q", "--set", "weights.format=mxfp4")
        report, _ = self.report(self.original, self.file)
        self.assertEqual((report["unmatched"], report["run"]["warnings"]), ([], []))
        decoder = Decoder(self.file, HIF8)
        found = {x["name"]: x["weight"]["sqnr_db"] for x in report["layers"]}
        for layer, name, weight in (("first", "w", table["w"]), ("second", "few", table["w"][:, :7])):
            self.assertAlmostEqual(found[layer], sqnr(weight, decoder.value(name).reshape(weight.shape)), places=9)

    def test_layers_come_in_the_model_s_order(self):
        self.original.write_bytes(network(17, dict(reversed(WEIGHTS.items()))))
        self.run_program("hif8-calibrate", "m.onnx", "--data", "x.npy", "-o", "out", "-q")
        report, _ = self.report(self.original, self.file)
        self.assertEqual([x["name"] for x in report["layers"]], [f"layer{i}" for i in range(len(SHAPES))])

    def test_a_weight_in_both_forms(self):
        """Of two layers that share a weight one is kept: each is told with what it reads."""
        square = {"w": (RNG.standard_normal((64, 64)) * 0.1).astype("f4")}
        nodes = [node("MatMul", "x0 w", "x1", "first"), node("MatMul", "x1 w", "x5", "second")]
        for export in ("quantized", "simulated"):
            self.original.write_bytes(network(17, square, nodes))
            self.run_program("hif8-calibrate", "m.onnx", "--data", "x.npy", "-o", "out", "-q", "--force", "--keep", "second",
                             "--export", export)  # fmt: skip
            report, _ = self.report(self.original, self.file)
            self.assertEqual((report["unmatched"], report["run"]["warnings"]), ([], []))
            self.assertEqual({x["name"]: x["status"] for x in report["layers"]}, {"first": "quantized", "second": "kept"})
            self.assertEqual(len(report["layers"]), 2)

    def edit(self, change):
        """change(number, value) -> the graph's field, or None."""
        fields = fields_of(self.file.read_bytes())
        graph = [change(n, v) for n, v in fields_of(next(v for n, v in fields if n == 7))]
        kept = message([f for f in graph if f is not None])
        self.file.write_bytes(message([(n, kept if n == 7 else v) for n, v in fields]))

    def edit_tensor(self, name, change):
        def of_field(number, content):
            if number == 5 and (8, name.encode()) in fields_of(content):
                content = message([(n, change(v) if n == 9 else v) for n, v in fields_of(content)])
            return number, content

        before = self.file.read_bytes()
        self.edit(of_field)
        self.assertNotEqual(before, self.file.read_bytes())

    def test_planted_errors(self):
        twice = {
            "fp8_e4m3": lambda data: (2 * np.frombuffer(data, "f4")).tobytes(),
            "mxfp4": lambda data: (np.frombuffer(data, "u1") + 1).astype("u1").tobytes(),
        }
        further = lambda data: data[-1:] + data[:-1]
        for number_format, opset in (("fp8_e4m3", 19), ("fp8_e4m3", 17), ("mxfp4", 17)):
            with self.subTest(number_format, opset=opset):
                self.quantize(number_format, {}, opset)
                good = self.file.read_bytes()
                self.edit_tensor("w2_scale", twice[number_format])
                decoded = Decoder(self.file, HIF8).value("w2").reshape(SHAPES[2]).astype("f8")
                gain = (WEIGHTS["w2"] * decoded).sum() / (WEIGHTS["w2"].astype("f8") ** 2).sum()
                self.assertAlmostEqual(gain, 2, delta=0.1)
                self.expect_found(self.original, self.file, "layer2", "w2", f"{gain:.3g} times the original's", below=10)
                self.file.write_bytes(good)
                self.edit_tensor("w2_codes", further)
                self.expect_found(self.original, self.file, "layer2", "w2", "do not belong together", below=10)
                self.file.write_bytes(good)
                self.edit(lambda n, v: self.without("w2", n, v))
                report, _ = self.report(self.original, self.file)
                self.assertEqual(report["unmatched"], [{"name": "w2", "in": "original"}])
                self.report(self.original, self.file, "--fail-if", "unmatched>0", code=1)

    @staticmethod
    def without(name, number, content):
        """A graph without the weight: the layer does nothing, and all that makes the weight is gone."""
        inside = fields_of(content) if number in (1, 5) else []
        if number == 5 and any(n == 8 and v.decode().startswith((name, f"{name}_")) for n, v in inside):
            return None
        made = [v.decode() for n, v in inside if n == 2] if number == 1 else []
        if any(v == name or v.startswith(f"{name}_") for v in made):
            return None
        if (1, name.encode()) in inside:
            content = message([f if f[0] != 4 else (4, "Identity") for f in inside if f != (1, name.encode())])
        return number, content


class WrittenByOthers(Pairs):
    """ONNX's QuantizeLinear and DequantizeLinear, named as ONNX Runtime's quantizer names them."""

    @staticmethod
    def decoded_name(name):
        return f"{name}_DequantizeLinear_Output"

    def write(self, quantize, opset=21, bias=None, **attributes):
        """quantize(name, weight) -> initializers of codes, scale and zero point (or None)."""
        nodes, tensors = [node("QuantizeLinear", "x0 x0_scale x0_zero_point", "x0_q"),
                          node("DequantizeLinear", "x0_q x0_scale x0_zero_point", "x0_dq")], []  # fmt: skip
        tensors += [tensor("x0_scale", np.float32(0.02)), tensor("x0_zero_point", np.uint8(128))]
        for i, (name, weight) in enumerate(WEIGHTS.items()):
            parts = quantize(name, weight)
            tensors += [p for p in parts if p]
            inputs = f"{name}_quantized {name}_scale" + (f" {name}_zero_point" if parts[2] else "")
            nodes.append(node("DequantizeLinear", inputs, self.decoded_name(name), **attributes))
            source = "x0_dq" if i == 0 else f"x{i}"
            nodes.append(node("MatMul", [source, self.decoded_name(name)], [f"x{i + 1}"], f"layer{i}"))
        if bias is not None:
            tensors += [tensor("bias_quantized", bias[0]), tensor("bias_scale", bias[1])]
            nodes.insert(2, node("DequantizeLinear", "bias_quantized bias_scale", self.decoded_name("bias"), axis=0))
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_bytes(network(opset, {}, nodes, tensors))

    @staticmethod
    def fp8(table, kind, scales_of):
        def quantize(name, weight):
            scales = scales_of(weight).astype("f4")
            wide = scales if scales.ndim < 2 else np.repeat(scales, 16, 0)[: weight.shape[0]]
            codes = nearest(table, weight / wide)
            return raw(f"{name}_quantized", kind, codes), tensor(f"{name}_scale", scales), None

        return quantize

    def test_fp8(self):
        tensorwise = lambda w: np.abs(w).max() / 448
        columns = lambda w: np.abs(w).max(0) / 448
        blocks = lambda w: np.abs(np.pad(w, ((0, -len(w) % 16), (0, 0)))).reshape(-1, 16, w.shape[1]).max(1) / 448
        for scales, granularity, attributes in (
            (tensorwise, "tensor", {}), (columns, "channel", {"axis": 1}), (columns, "channel", {"axis": -1}),
            (blocks, "16x1", {"axis": 0, "block_size": 16}),
        ):  # fmt: skip
            self.write(self.fp8(E4M3, F8_E4M3, scales), **attributes)
            report = self.check("fp8_e4m3")
            self.assertEqual([f["name"] for f in report["formats"]], ["fp8_e4m3"])
            for layer, weight in zip(report["layers"], WEIGHTS.values()):
                self.assertEqual(layer["weight"]["granularity"], granularity)
                if granularity != "16x1":
                    self.check_exponents(layer, weight, scales(weight).astype("f4"))
        self.write(self.fp8(E5M2, F8_E5M2, lambda w: np.abs(w).max() / 57344), opset=19)
        self.check("fp8_e5m2")

    @staticmethod
    def integers(kind, asymmetric, axis):
        info = np.iinfo(kind)

        def quantize(name, weight):
            over = None if axis is None else tuple(i for i in range(2) if i != axis)
            least, most = np.minimum(weight.min(over), 0), np.maximum(weight.max(over), 0)
            if asymmetric:
                scale = ((most - least) / 255).astype("f4")
                zero = np.rint(info.min - least / scale).astype(kind)
            else:
                scale = (np.maximum(most, -least) / 127).astype("f4")
                zero = np.full(np.shape(scale), info.min + 128, kind)
            wide = (lambda a: a) if axis is None else (lambda a: np.expand_dims(a, 1 - axis))
            codes = np.clip(np.rint(weight / wide(scale)) + wide(zero.astype("f4")), info.min, info.max).astype(kind)
            return tensor(f"{name}_quantized", codes), tensor(f"{name}_scale", scale), tensor(f"{name}_zero_point", zero)

        return quantize

    def test_integers_with_zero_points(self):
        for kind in ("int8", "uint8"):
            for asymmetric in (False, True):
                for axis in (None, 0, 1):
                    with self.subTest(kind, asymmetric=asymmetric, axis=axis):
                        self.write(self.integers(kind, asymmetric, axis), opset=13, **({} if axis is None else {"axis": axis}))
                        report = self.check("int8")
                        for layer in report["layers"]:
                            self.assertFalse([n for n in layer["weight"]["notes"] if "rounded to nearest" in n], layer)

    def test_a_zero_point_that_is_one_too_high(self):
        def quantize(name, weight):
            codes, scale, zero = self.integers("uint8", True, None)(name, weight)
            if name == "w2":
                zero = [(n, bytes([v[0] + 1]) if n == 9 else v) for n, v in zero]
            return codes, scale, zero

        self.write(quantize, opset=13)
        self.expect_found(self.original, self.file, "layer2", "w2", "do not belong together", below=30)

    def test_a_bias_of_32_bits(self):
        bias = RNG.standard_normal(48).astype("f4")
        nodes = [node("MatMul", f"x{i} w{i}", f"x{i + 1}", f"layer{i}") for i in range(len(SHAPES))]
        nodes[4:] = [node("Add", "x4 bias", "x4_b", "add"), node("MatMul", "x4_b w4", "x5", "layer4")]
        self.original.write_bytes(network(13, {**WEIGHTS, "bias": bias}, nodes))
        for wrong in (1, 2):
            scale = np.full(48, 1e-6, "f4")
            self.write(self.integers("int8", False, None), 13, (np.rint(bias / scale).astype("i4"), wrong * scale))
            report, _ = self.report(self.original, self.file)
            self.assertEqual(report["unmatched"], [])
            (row,) = [x for x in report["layers"] if x["name"] == "bias"]
            decoded = Decoder(self.file, HIF8).value(self.decoded_name("bias"))
            self.assertAlmostEqual(row["weight"]["sqnr_db"], sqnr(bias, decoded), places=9)
            self.assertEqual(len(report["run"]["warnings"]), wrong - 1)

    def test_scales_that_do_not_fit_are_told(self):
        def quantize(name, weight):
            codes, scale, zero = self.fp8(E4M3, F8_E4M3, lambda w: np.abs(w).max(0) / 448)(name, weight)
            if name == "w1":
                scale = tensor("w1_scale", np.ones(5, "f4"))
            return codes, scale, zero

        self.write(quantize, axis=1)
        report, _ = self.report(self.original, self.file)
        self.assertEqual(report["run"]["warnings"], ["w1: codes FLOAT8E4M3FN [20, 33] do not fit scales FLOAT [5]"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
