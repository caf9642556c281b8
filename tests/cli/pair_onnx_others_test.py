"""hif8-report on ONNX files as other programs quantize them: pair_onnx_others_test.py BIN_DIR ROOT.

Names, shapes and axes are those of ONNX Runtime's quantizers (operators on integers, weights of four bits, QuantizeLinear
kept before float weights) and of TensorRT Model Optimizer (FP4). What each weight is worth follows from the arrays that
the test writes, with numpy.
"""

import sys
import unittest

import numpy as np
from onnx_emit import Graph, message, model, node, raw, tensor, value
from pair_case import PairCase
from plain_formats import E2M1, E4M3, nearest
from plain_onnx import F8_E4M3, sqnr

UINT4, INT4, FP4, E8M0 = 21, 22, 23, 24  # element types that numpy does not have
RNG = np.random.default_rng(8)
random = lambda *shape: (RNG.standard_t(5, shape) * 0.2).astype("f4")
# An image network: first, second and last layer have a bias; a table whose rows are looked up.
WEIGHTS = {"conv_w": random(6, 3, 3, 3), "conv_b": random(6), "mul_w": random(24, 9), "add_b": random(9),
           "gemm_w": random(5, 9), "gemm_b": random(5), "table": random(11, 9)}  # fmt: skip
LAYERS = {"conv_w": "conv", "mul_w": "mul", "gemm_w": "gemm", "table": "rows"}
SHARED = [node("QuantizeLinear", "x x_scale x_zero_point", "x_quantized")]


def network(nodes, weights=None, tensors=(), opset=21):
    inputs = [value("x", ["n", 3, 4, 4]), value("ids", ["n"], "int64")]
    made = model(Graph(inputs, [value("y", None), value("e", None)], nodes, weights or {}, tensors), opset=opset, ir=10)
    return made + message([(8, [(1, "com.microsoft"), (2, 1)])])


ORIGINAL = [
    node("Conv", "x conv_w conv_b", "c", "conv"), node("Flatten", "c", "f", "flatten"),
    node("MatMul", "f mul_w", "m", "mul"), node("Add", "m add_b", "a", "add"),
    node("Gemm", "a gemm_w gemm_b", "y", "gemm", transB=1), node("Gather", "table ids", "e", "rows"),
]  # fmt: skip


def along(numbers, axis, rank):
    """Shaped to broadcast: one number for all, or one for each index of the axis."""
    return np.reshape(numbers, [-1 if i == axis else 1 for i in range(rank)]) if np.ndim(numbers) else numbers


class Integers:
    """A weight as ONNX Runtime's quantizer makes it: symmetric where signed, else from the smallest to the largest."""

    def __init__(self, name, kind="int8", axis=None, bits=8):
        self.name, weight = name, WEIGHTS[name]
        over = None if axis is None else tuple(i for i in range(weight.ndim) if i != axis)
        least, most = np.minimum(weight.min(over), 0), np.maximum(weight.max(over), 0)
        self.low, self.high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if kind[0] == "u":
            self.scale = ((most - least) / self.high).astype("f4")
            self.zero = np.rint(-least / self.scale).astype(kind)
        else:
            self.scale = (np.maximum(most, -least) / self.high).astype("f4")
            self.zero = np.zeros(np.shape(self.scale), kind)
        self.kind, self.axis, self.zero_tensor = kind, axis, tensor(f"{name}_zero_point", self.zero)
        self.codes = self.rounded(weight)

    def spread(self, numbers):
        return along(numbers, self.axis, WEIGHTS[self.name].ndim)

    def rounded(self, weight):
        codes = np.rint(weight / self.spread(self.scale)) + self.spread(self.zero.astype("f4"))
        return np.clip(codes, self.low, self.high).astype(self.kind)

    def decoded(self):
        return (self.codes.astype("f8") - self.spread(self.zero.astype("f8"))) * self.spread(self.scale.astype("f8"))

    def tensors(self):
        parts = {"_quantized": self.codes, "_scale": self.scale}
        return [tensor(self.name + suffix, array) for suffix, array in parts.items()] + [self.zero_tensor]


class Others(PairCase):
    def setUp(self):
        super().setUp()
        self.original, self.file = self.folder / "m.onnx", self.folder / "q.onnx"
        self.original.write_bytes(network(ORIGINAL, WEIGHTS))

    def check(self, expected, equal=()):
        """expected: format and decoded values by weight; `equal` are those that stayed."""
        report, _ = self.report(self.original, self.file)
        self.assertEqual((report["run"]["warnings"], report["unmatched"]), ([], []))
        rows = {x["name"]: x for x in report["layers"]}
        for name, (number_format, decoded) in expected.items():
            weight = rows[LAYERS.get(name, name)]["weight"]
            self.assertEqual(weight["format"], number_format, name)
            self.assertAlmostEqual(weight["sqnr_db"], sqnr(WEIGHTS[name], decoded.astype("f4")), places=6, msg=name)
            if number_format not in ("I32",):
                self.assertFalse([n for n in weight["notes"] if "rounded to nearest" in n], name)
        self.assertEqual({n for n in LAYERS if rows[LAYERS[n]]["status"] == "kept"}, set(equal))
        self.assertEqual(set(expected) | set(equal), {n for n in WEIGHTS if LAYERS.get(n, n) in rows})
        return report


class OperatorsOnIntegers(Others):
    """QLinearConv, QLinearMatMul, QLinearAdd, QGemm with their constants; biases of 32 bits."""

    X_SCALE = np.float32(0.03)

    def write(self, weights, biases, change=lambda tensors: tensors):
        tensors = [tensor("x_scale", self.X_SCALE), tensor("x_zero_point", np.uint8(120))]
        for name in ("c", "m", "a", "y"):
            tensors += [tensor(f"{name}_scale", self.X_SCALE), tensor(f"{name}_zero_point", np.uint8(7))]
        for one in weights.values():
            tensors += one.tensors()
        tensors += [tensor(f"{name}_quantized", codes) for name, (codes, _) in biases.items()]
        operand = lambda name: f"{name}_quantized {name}_scale {name}_zero_point"
        result = lambda name: f"{name}_scale {name}_zero_point"
        ours = {"domain": "com.microsoft"}
        nodes = SHARED + [
            node("QLinearConv", f"{operand('x')} {operand('conv_w')} {result('c')} conv_b_quantized", "c_quantized", "conv_quant"),
            node("Flatten", "c_quantized", "f_quantized", "flatten"),
            node("QLinearMatMul", f"f_quantized {result('c')} {operand('mul_w')} {result('m')}", "m_quantized", "mul_quant"),
            node("QLinearAdd", f"{operand('m')} {operand('add_b')} {result('a')}", "a_quantized", "add_quant", **ours),
            node("QGemm", f"{operand('a')} {operand('gemm_w')} gemm_b_quantized {result('y')}", "y_quantized", "gemm_quant",
                 transB=1, **ours),
            node("DequantizeLinear", operand("y"), "y", "y_dequantize"),
            node("Gather", "table_quantized ids", "e_quantized", "rows_quant"),
            node("DequantizeLinear", f"e_quantized {result('table')}", "e", "e_dequantize"),
        ]  # fmt: skip
        self.file.write_bytes(network(nodes, tensors=change(tensors)))

    def quantized(self, kind, channels):
        axes = {"conv_w": 0, "mul_w": 1, "gemm_w": 0} if channels else {}
        weights = {name: Integers(name, kind, axes.get(name)) for name in ("conv_w", "mul_w", "add_b", "gemm_w", "table")}
        return weights, self.biases(weights)

    def biases(self, weights):
        """Codes and scales."""
        found = {}
        for name, of in (("conv_b", "conv_w"), ("gemm_b", "gemm_w")):
            scale = (self.X_SCALE * weights[of].scale).astype("f4")
            found[name] = np.rint(WEIGHTS[name] / scale).astype("i4"), scale
        return found

    def test_every_constant(self):
        for kind in ("int8", "uint8"):
            for channels in (False, True):
                with self.subTest(kind, channels=channels):
                    weights, biases = self.quantized(kind, channels)
                    self.write(weights, biases)
                    expected = {name: ("int8", one.decoded()) for name, one in weights.items()}
                    expected |= {name: ("I32", codes * scale.astype("f8")) for name, (codes, scale) in biases.items()}
                    report = self.check(expected)
                    told = {x["name"]: x["weight"]["granularity"] for x in report["layers"]}
                    self.assertEqual(told["conv"], "channel" if channels else "tensor")

    def test_planted_errors(self):
        for name, layer in (("conv_w", "conv"), ("mul_w", "mul"), ("gemm_w", "gemm")):
            for part, change in (("scale", lambda a: a * np.float32(2)), ("codes", lambda a: np.roll(a, 1)),
                                 ("zero_tensor", lambda a: a[:-1] + [(9, (np.frombuffer(a[-1][1], "u1") + 20).tobytes())])):  # fmt: skip
                with self.subTest(name, part=part):
                    weights, _ = self.quantized("uint8", True)
                    setattr(weights[name], part, change(getattr(weights[name], part)))
                    self.write(weights, self.biases(weights))
                    self.expect_found(self.original, self.file, layer, name, "do not belong together")

    def test_a_bias_in_the_units_of_another_layer(self):
        weights, biases = self.quantized("int8", True)
        codes, scale = biases["conv_b"]
        self.write(weights, biases | {"conv_b": (codes * 3, scale)})
        self.expect_found(self.original, self.file, "conv_b", "conv_b", "3 times the original's")

    def test_scales_that_do_not_fit_are_told(self):
        weights, biases = self.quantized("int8", True)
        weights["mul_w"].scale = np.ones(5, "f4")
        self.write(weights, biases)
        report, _ = self.report(self.original, self.file)
        self.assertEqual(report["run"]["warnings"], ["mul_w: codes INT8 [24, 9] do not fit scales FLOAT [5]"])


class ProductsOfIntegers(Others):
    """MatMulInteger and ConvInteger: the scale stands behind the product, times that of the input."""

    def write(self, weights, scaled=True):
        nodes, tensors = [], [t for one in weights.values() for t in one.tensors()]
        for op, source, name, result in (("ConvInteger", "x", "conv_w", "c"), ("MatMulInteger", "f", "mul_w", "m")):
            nodes += [
                node("DynamicQuantizeLinear", source, f"{source}_q {source}_scale {source}_zp", f"{source}_QuantizeLinear"),
                node(op, f"{source}_q {name}_quantized {source}_zp {name}_zero_point", f"{result}_i", f"{name}_quant"),
                node("Cast", f"{result}_i", f"{result}_f", f"{result}_cast", to=1),
                node("Mul", f"{source}_scale {name}_scale" if scaled else f"{source}_scale {source}_scale", f"{name}_scales_mul:0"),
                node("Mul", [f"{result}_f", f"{name}_scales_mul:0"], [f"{result}_s" if op[0] == "C" else result]),
            ]  # fmt: skip
            if op[0] == "C":
                nodes += [node("Add", "c_s conv_b_shaped", "c"), node("Flatten", "c", "f", "flatten")]
        nodes += [node("Reshape", "conv_b conv_b_shape", "conv_b_shaped")] + ORIGINAL[3:]
        kept = {n: WEIGHTS[n] for n in WEIGHTS if n not in weights} | {"conv_b_shape": np.array([1, -1, 1, 1])}
        self.file.write_bytes(network(nodes[-1:] + nodes[:-1], kept, tensors))

    def test_every_form(self):
        for kind in ("int8", "uint8"):
            for axis in (None, 1):
                with self.subTest(kind, axis=axis):
                    weights = {"conv_w": Integers("conv_w", kind), "mul_w": Integers("mul_w", kind, axis)}
                    self.write(weights)
                    self.check({n: ("int8", one.decoded()) for n, one in weights.items()}, {"gemm_w", "table"})

    def test_fused_with_what_is_around_them(self):
        """As ONNX Runtime's optimizer leaves them."""
        for op, inputs in (("MatMulIntegerToFloat", "f_q {0}_quantized f_scale {0}_scale f_zp {0}_zero_point"),
                           ("DynamicQuantizeMatMul", "f {0}_quantized {0}_scale {0}_zero_point")):  # fmt: skip
            one = Integers("mul_w", "uint8", 1)
            nodes = [node("DynamicQuantizeLinear", "f", "f_q f_scale f_zp", "f_QuantizeLinear"),
                     node(op, inputs.format("mul_w"), "m", "mul_quant", domain="com.microsoft")]  # fmt: skip
            kept = {n: w for n, w in WEIGHTS.items() if n != "mul_w"}
            self.file.write_bytes(network(ORIGINAL[:2] + nodes + ORIGINAL[3:], kept, one.tensors()))
            self.check({"mul_w": ("int8", one.decoded())}, {"conv_w", "gemm_w", "table"})

    def test_planted_errors(self):
        for name, layer in (("conv_w", "conv"), ("mul_w", "mul")):
            weights = {"conv_w": Integers("conv_w"), "mul_w": Integers("mul_w", "int8", 1)}
            weights[name].scale = weights[name].scale * np.float32(0.5)
            self.write(weights)
            self.expect_found(self.original, self.file, layer, name, "0.5 times the original's")

    def test_a_product_that_nothing_scales_is_told(self):
        self.write({"conv_w": Integers("conv_w"), "mul_w": Integers("mul_w")}, scaled=False)
        report, _ = self.report(self.original, self.file)
        self.assertEqual(report["run"]["warnings"],
                         [f"{n}: nothing constant was found that scales its products" for n in ("conv_w", "mul_w")])  # fmt: skip


class FloatsThatAreRounded(Others):
    """A float weight with QuantizeLinear and DequantizeLinear behind it (AddQDQPairToWeight)."""

    def write(self, weights, decode=None, shared=False, **types):
        """decode: other scales for DequantizeLinear."""
        nodes, kept, tensors = list(ORIGINAL), dict(WEIGHTS), []
        for name, one in weights.items():
            axis = {} if one.axis is None else {"axis": one.axis}
            tensors += one.tensors()[1:]
            again = f"{name}_scale"
            if decode is not None:
                again = f"{name}_scale_2"
                tensors.append(tensor(again, decode(one.scale)))
            nodes = [
                node("QuantizeLinear", f"{name} {name}_scale {name}_zero_point", f"{name}_QuantizeLinear_Output", **axis, **types),
                node("DequantizeLinear", f"{name}_QuantizeLinear_Output {again} {name}_zero_point",
                     f"{name}_DequantizeLinear_Output", **axis),
            ] + [self.renamed(n, name) for n in nodes]  # fmt: skip
        if shared:
            nodes.append(node("Identity", "mul_w", "z", "copy"))
        self.file.write_bytes(network(nodes, kept, tensors))

    @staticmethod
    def renamed(fields, name):
        return [(n, f"{name}_DequantizeLinear_Output" if (n, v) == (1, name) else v) for n, v in fields]

    def test_every_form(self):
        for kind in ("int8", "uint8"):
            for channels in (False, True):
                with self.subTest(kind, channels=channels):
                    axes = {"conv_w": 0, "mul_w": 1, "gemm_w": 0} if channels else {}
                    weights = {n: Integers(n, kind, axes.get(n)) for n in ("conv_w", "mul_w", "gemm_w", "table")}
                    self.write(weights)
                    self.check({n: ("int8", one.decoded()) for n, one in weights.items()})

    def test_other_types(self):
        weights = {"conv_w": Integers("conv_w", "int16", 0, bits=16), "gemm_w": Integers("gemm_w", "uint16", 0, bits=16)}
        self.write(weights)
        kept = {"mul_w", "table"}
        self.check({"conv_w": ("I16", weights["conv_w"].decoded()), "gemm_w": ("U16", weights["gemm_w"].decoded())}, kept)
        half = Integers("mul_w", "int8", 1, bits=4)
        half.zero_tensor = packed("mul_w_zero_point", INT4, half.zero)
        self.write({"mul_w": half})
        self.check({"mul_w": ("int4", half.decoded())}, set(LAYERS) - {"mul_w"})
        eight = Integers("mul_w", "int8", 1)
        eight.scale = (np.abs(WEIGHTS["mul_w"]).max(0) / 448).astype("f4")
        eight.zero_tensor = raw("mul_w_zero_point", F8_E4M3, np.zeros(9))
        self.write({"mul_w": eight})
        decoded = E4M3[nearest(E4M3, WEIGHTS["mul_w"] / eight.scale)] * eight.scale.astype("f8")
        self.check({"mul_w": ("fp8_e4m3", decoded)}, set(LAYERS) - {"mul_w"})

    def test_floats_that_are_not_the_original_s(self):
        weights = {"mul_w": Integers("mul_w", "int8", 1)}
        self.write(weights)
        told = WEIGHTS["mul_w"].copy()
        try:
            WEIGHTS["mul_w"] *= np.float32(1.5)
            self.write(weights)
        finally:
            WEIGHTS["mul_w"] = told
        self.expect_found(self.original, self.file, "mul", "mul_w", "do not belong together", below=15)

    def test_decoded_with_another_scale(self):
        self.write({"mul_w": Integers("mul_w", "int8", 1)}, lambda scale: scale * np.float32(2))
        self.expect_found(self.original, self.file, "mul", "mul_w", "2 times the original's")

    def test_a_weight_that_is_read_in_both_forms(self):
        self.write({"mul_w": Integers("mul_w", "int8", 1)}, shared=True)
        report, _ = self.report(self.original, self.file)
        self.assertEqual((report["run"]["warnings"], report["unmatched"]), ([], []))
        (row,) = [x for x in report["layers"] if x["name"] == "mul"]
        self.assertEqual(row["weight"]["format"], "int8")


def halves(codes):
    """Two codes a byte, whatever the rows."""
    flat = np.append(codes.reshape(-1).astype("i8") & 15, 0)
    return (flat[: codes.size : 2] | flat[1 : codes.size + 1 : 2] << 4).astype("u1")


def packed(name, kind, codes, in_field=False):
    """An initializer of four-bit elements; in_field: as onnx.helper.make_tensor writes small ones."""
    fields = [(1, d) for d in np.shape(codes)] + [(2, kind), (8, name)]
    data = halves(np.asarray(codes))
    return fields + ([(5, int(b)) for b in data] if in_field else [(9, data.tobytes())])


class FourBits(Others):
    def write(self, decoders, tensors, name="mul_w", kept=WEIGHTS):
        made = f"{name}_DequantizeLinear_Output"
        nodes = decoders(made) + [FloatsThatAreRounded.renamed(n, name) for n in ORIGINAL]
        self.file.write_bytes(network(nodes, {n: w for n, w in kept.items() if n != name}, tensors, opset=23))

    def check_weight(self, number_format, decoded, name="mul_w"):
        return self.check({name: (number_format, decoded)}, set(LAYERS) - {name})

    def test_one_scale_or_one_for_each_channel(self):
        for kind, unsigned in ((INT4, ""), (UINT4, "u")):
            for axis, name in ((None, "mul_w"), (1, "mul_w"), (0, "conv_w")):
                with self.subTest(kind, axis=axis):
                    one = Integers(name, f"{unsigned}int8", axis, bits=4)
                    attributes = {} if axis is None else {"axis": axis}
                    node_of = lambda made: [node("DequantizeLinear", f"{name}_quantized {name}_scale {name}_zero_point", made,
                                                 **attributes)]  # fmt: skip
                    self.write(node_of, [packed(f"{name}_quantized", kind, one.codes), tensor(f"{name}_scale", one.scale),
                                         packed(f"{name}_zero_point", kind, one.zero, in_field=True)], name)  # fmt: skip
                    self.check_weight("int4", one.decoded(), name)

    @staticmethod
    def blocks(symmetric, size=16):
        """As ONNX Runtime's block quantizer: by columns, -8 for the largest, or from least to most."""
        weight = WEIGHTS["mul_w"]
        padded = np.pad(weight, ((0, -len(weight) % size), (0, 0))).reshape(-1, size, weight.shape[1])
        if symmetric:
            largest = np.take_along_axis(padded, np.abs(padded).argmax(1)[:, None], 1)[:, 0]
            scale, zero = (largest / -8).astype("f4"), np.zeros(largest.shape, "i1")
            scale = np.abs(scale)
            low, high = -8, 7
        else:
            least, most = np.minimum(padded.min(1), 0), np.maximum(padded.max(1), 0)
            scale = ((most - least) / 15).astype("f4")
            zero, (low, high) = np.rint(-least / scale).astype("u1"), (0, 15)
        wide = lambda a: np.repeat(a, size, 0)[: len(weight)]
        codes = np.clip(np.rint(weight / wide(scale)) + wide(zero.astype("f4")), low, high)
        return codes, scale, zero, (codes - wide(zero.astype("f8"))) * wide(scale.astype("f8"))

    def write_blocks(self, symmetric, codes, scale, zero):
        kind = INT4 if symmetric else UINT4
        inputs = "mul_w_DQ_Q4 mul_w_DQ_scales" + ("" if symmetric else " mul_w_DQ_zero_points")
        node_of = lambda made: [node("DequantizeLinear", inputs, made, "mul_DQ_Q4", axis=0, block_size=16)]
        tensors = [packed("mul_w_DQ_Q4", kind, codes), tensor("mul_w_DQ_scales", scale)]
        self.write(node_of, tensors + ([] if symmetric else [packed("mul_w_DQ_zero_points", kind, zero)]))

    def test_blocks(self):
        for symmetric in (True, False):
            with self.subTest(symmetric=symmetric):
                codes, scale, zero, decoded = self.blocks(symmetric)
                self.write_blocks(symmetric, codes, scale, zero)
                report = self.check_weight("int4", decoded)
                (row,) = [x for x in report["layers"] if x["name"] == "mul"]
                self.assertEqual(row["weight"]["granularity"], "16x1")
                self.assertEqual(row["weight"]["bytes_after"], 108 + 4 * 18 + (0 if symmetric else 9))
                self.write_blocks(symmetric, np.roll(codes, 1), scale, zero)
                self.expect_found(self.original, self.file, "mul", "mul_w", "do not belong together", below=10)
                self.write_blocks(symmetric, codes, scale * np.float32(2), zero)
                self.expect_found(self.original, self.file, "mul", "mul_w", "times the original's", below=10)

    def test_fp4(self):
        """Blocks of 16 along the rows, whose FP8 scales have a scale themselves; groups of 32 with exponents."""
        weight = WEIGHTS["gemm_w"]
        amax = np.abs(weight).max(1, keepdims=True)
        whole = np.float32(amax.max() / 6 / 448)
        for kind in ("fp4_e2m1", "mxfp4"):
            with self.subTest(kind):
                if kind == "fp4_e2m1":
                    block = 16
                    scale_codes = nearest(E4M3, amax / 6 / whole)
                    scales = (E4M3[scale_codes].astype("f4") * whole).astype("f4")
                    tensors = [raw("gemm_w_f8_scale", F8_E4M3, scale_codes), tensor("gemm_w_f8_scale_f32_scale", whole)]
                    before = [node("DequantizeLinear", "gemm_w_f8_scale gemm_w_f8_scale_f32_scale", "gemm_w_f32_scale")]
                    name = "gemm_w_f32_scale"
                else:
                    block = 32
                    exponents = np.floor(np.log2(amax)) - 2 + 127
                    scales = np.exp2(exponents - 127).astype("f4")
                    tensors, before, name = [raw("gemm_w_scale", E8M0, exponents)], [], "gemm_w_scale"
                codes = nearest(E2M1, weight / scales)
                node_of = lambda made: before + [node("DequantizeLinear", f"gemm_w_f4 {name}", made, axis=-1, block_size=block)]
                write = lambda codes: self.write(node_of, tensors + [packed("gemm_w_f4", FP4, codes)], "gemm_w")
                write(codes)
                self.check_weight(kind, E2M1[codes] * scales.astype("f8"), "gemm_w")
                write(np.roll(codes, 1))
                self.expect_found(self.original, self.file, "gemm", "gemm_w", "do not belong together", below=10)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
