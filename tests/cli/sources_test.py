"""Checkpoints that come quantized are read as numpy reads them: sources_test.py HIF8_CALIBRATE.

Each kind of storage is written here by its definition; what is kept comes out as numpy's values, bit by bit, and what is
quantized as from the decoded checkpoint.
"""

import json
import pathlib
import sys
import unittest

import numpy as np
from plain_files import read_file, write_file
from plain_formats import E2M1, E4M3, E5M2
from program_case import CalibrateCase

RNG = np.random.default_rng(5)
OUT, IN = 160, 288  # no whole blocks of 128
KEPT, QUANTIZED = "model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"


def f32(x):
    return ("F32", list(np.shape(x)), np.asarray(x, "<f4").tobytes())


def bf16(x):
    bits = np.asarray(x, "f4").view("u4")
    assert not (bits & 0xFFFF).any()
    return ("BF16", list(np.shape(x)), (bits >> 16).astype("<u2").tobytes())


def u8(kind, codes):
    return (kind, list(codes.shape), codes.astype("u1").tobytes())


def scales(*shape):
    """Exact in bf16."""
    return ((RNG.integers(128, 256, shape) * 2.0**-13).astype("f4") if shape else np.float32(0.017578125))


def finite(table, *shape):
    return RNG.choice(np.flatnonzero(np.isfinite(table)), shape).astype("u1")


def spread(per_block, rows, columns, shape=(OUT, IN)):
    return np.repeat(np.repeat(per_block, rows, 0), columns, 1)[: shape[0], : shape[1]]


def pack(codes):
    """Two a byte, the first one low."""
    return codes[..., 0::2] | codes[..., 1::2] << 4


def fp8(scale_type, name, rows, columns, table=E4M3, kind="F8_E4M3"):
    def make(module):
        codes = finite(table, OUT, IN)
        shape = () if rows is None else (-(-OUT // rows), -(-IN // columns))
        s = scales(*shape)
        each = s if rows is None else spread(s, rows, columns)
        return {f"{module}.weight": u8(kind, codes), f"{module}.{name}": scale_type(s)}, table[codes].astype("f4") * each

    return make


def powers(kind, name, group, weight_name="weight", packed=None, table=E2M1):
    """E8M0 scales for groups along the inputs, or for squares of 128."""

    def make(module):
        codes = finite(table, OUT, IN)
        rows = 128 if group == 128 else 1
        exponents = RNG.integers(115, 130, (-(-OUT // rows), -(-IN // group))).astype("u1")
        value = table[codes].astype("f4") * spread(np.exp2(exponents.astype("f8") - 127).astype("f4"), rows, group)
        stored = u8(packed, pack(codes)) if packed else u8("F8_E4M3", codes)
        return {f"{module}.{weight_name}": stored, f"{module}.{name}": u8(kind, exponents)}, value

    return make


def int8(module):
    codes, s = RNG.integers(-127, 128, (OUT, IN)).astype("i1"), scales(OUT, 1)
    return {f"{module}.weight": ("I8", [OUT, IN], codes.tobytes()), f"{module}.weight_scale": bf16(s)}, codes.astype("f4") * s


def int4(group):
    def make(module):
        codes, s = RNG.integers(-8, 8, (OUT, IN)), scales(OUT, IN // group)
        words = np.zeros((OUT, IN // 8), "u4")
        for i in range(8):
            words |= (codes[:, i::8] + 8).astype("u4") << np.uint32(4 * i)
        return {
            f"{module}.weight_packed": ("I32", list(words.shape), words.tobytes()), f"{module}.weight_scale": bf16(s),
            f"{module}.weight_shape": ("I64", [2], np.array([OUT, IN], "<i8").tobytes()),
        }, codes.astype("f4") * spread(s, 1, group)  # fmt: skip

    return make


def nvfp4(modelopt):
    def make(module):
        codes, s = finite(E2M1, OUT, IN), RNG.integers(1, 0x7F, (OUT, IN // 16)).astype("u1")
        number = np.float32(0.0123) if modelopt else np.float32(417.3)
        each = E4M3[s].astype("f4") * number if modelopt else E4M3[s].astype("f4") / number
        names = ("weight", "weight_scale_2") if modelopt else ("weight_packed", "weight_global_scale")
        return {
            f"{module}.{names[0]}": u8("U8", pack(codes)), f"{module}.weight_scale": u8("F8_E4M3", s),
            f"{module}.{names[1]}": f32(number if modelopt else [number]),
        }, E2M1[codes].astype("f4") * spread(each, 1, 16)  # fmt: skip

    return make


COMPRESSED = {"quant_method": "compressed-tensors"}
KINDS = {
    "FP8 in blocks": (fp8(f32, "weight_scale_inv", 128, 128), {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    "FP8 in blocks, BF16": (fp8(bf16, "weight_scale_inv", 128, 128), {"quant_method": "fp8"}),
    "FP8 in other blocks": (fp8(f32, "weight_scale_inv", 64, 96), {"quant_method": "fp8", "weight_block_size": [64, 96]}),
    "FP8 in blocks, powers of two": (powers("F8_E8M0", "scale", 128, table=E4M3), {"quant_method": "fp8"}),
    "FP8 by row": (fp8(bf16, "weight_scale", 1, IN), {**COMPRESSED, "format": "float-quantized"}),
    "FP8 by tensor": (fp8(f32, "weight_scale", None, None), {"quant_method": "modelopt"}),
    "E5M2 by row": (fp8(f32, "weight_scale", 1, IN, E5M2, "F8_E5M2"), {**COMPRESSED, "format": "float-quantized"}),
    "MXFP8": (powers("U8", "weight_scale", 32, table=E4M3), {**COMPRESSED, "format": "mxfp8-quantized"}),
    "INT8": (int8, {**COMPRESSED, "format": "int-quantized"}),
    "INT4": (int4(32), {**COMPRESSED, "format": "pack-quantized"}),
    "INT4 by 96": (int4(96), {**COMPRESSED, "format": "pack-quantized", "config_groups": {"group_0": {"weights": {"group_size": 96}}}}),
    "MXFP4": (powers("U8", "weight_scale", 32, "weight_packed", "U8"), {**COMPRESSED, "format": "mxfp4-pack-quantized"}),
    "MXFP4 as in DeepSeek-V4": (powers("F8_E8M0", "scale", 32, packed="I8"), {"quant_method": "fp8"}),
    "NVFP4": (nvfp4(False), {**COMPRESSED, "format": "nvfp4-pack-quantized"}),
    "NVFP4 of ModelOpt": (nvfp4(True), {"quant_method": "modelopt"}),
}  # fmt: skip


class SourcesTest(CalibrateCase):
    def setUp(self):
        super().setUp()
        self.enter_folder()

    def model(self, folder, tensors, quantization=None):
        path = pathlib.Path(folder)
        path.mkdir(exist_ok=True)
        config = {"model_type": "none", "torch_dtype": "float32"}
        if quantization is not None:
            config["quantization_config"] = quantization
        (path / "config.json").write_text(json.dumps(config))
        write_file(path / "model.safetensors", tensors)
        return path

    def written(self, model, out, *args):
        self.run_program(model, "-o", out, "--recipe", "cast", "--force", "-q", *args)
        return read_file(pathlib.Path(out) / "model.safetensors")[0]

    def test_values_are_numpys(self):
        for name, (make, quantization) in KINDS.items():
            with self.subTest(name):
                stored, values = {}, {}
                for module in (KEPT, QUANTIZED):
                    tensors, values[module] = make(module)
                    stored.update(tensors)
                self.assertTrue(all(np.isfinite(v).all() for v in values.values()))
                decoded = self.model("decoded", {f"{module}.weight": f32(v) for module, v in values.items()})
                expected = self.written(decoded, "a", "--keep", r"layers\.0")
                source = self.model("source", stored, quantization)
                (source / "hf_quant_config.json").write_text("{}")
                found = self.written(source, "b", "--keep", r"layers\.0")
                self.assertEqual(found[KEPT + ".weight"], f32(values[KEPT]))
                self.assertEqual(found, expected)
                self.assertFalse(pathlib.Path("b/hf_quant_config.json").exists())
                config = json.loads(pathlib.Path("b/config.json").read_text())["quantization_config"]
                self.assertEqual(config["quant_method"], "compressed-tensors")

    def test_experts_in_blocks(self):
        experts, out, groups = 3, 40, 2
        codes = finite(E2M1, experts, out, 32 * groups)
        exponents = RNG.integers(115, 130, (experts, out, groups)).astype("u1")
        values = E2M1[codes].astype("f4") * np.repeat(np.exp2(exponents.astype("f8") - 127), 32, 2).astype("f4")
        name = "model.layers.0.mlp.experts.gate_up_proj"
        stored = {
            f"{name}_blocks": u8("U8", pack(codes).reshape(experts, out, groups, 16)), f"{name}_scales": u8("U8", exponents),
            "model.layers.0.self_attn.o_proj.weight": f32(RNG.standard_normal((8, 8))),
        }  # fmt: skip
        found = self.written(self.model("source", stored, {"quant_method": "mxfp4"}), "b")
        self.assertEqual(found[name], f32(values.transpose(0, 2, 1)))
        self.assertNotIn(name + "_scales", found)

    def test_no_quantization(self):
        tensors = {KEPT + ".weight": f32(RNG.standard_normal((8, 8)))}
        for none in ({}, {"quant_method": None}):
            self.written(self.model("source", tensors, none), "out")

    def test_what_is_not_read(self):
        tensors, _ = int8(KEPT)
        for quantization, says in (
            ({"quant_method": "gptq"}, "gptq"), ({"quant_method": "hqq"}, "hqq"), ({"bits": 4}, "without quant_method"),
            ({**COMPRESSED, "format": "marlin-24"}, "marlin-24"), ({"quant_method": "fp8", "fmt": "e5m2"}, "e5m2"),
        ):  # fmt: skip
            model = self.model("source", tensors, quantization)
            self.run_program(model, "-o", "out", "--recipe", "cast", code=3, says=["already quantized", says])
        zero = {KEPT + ".weight_zero_point": ("I8", [OUT, 1], bytes(OUT))}
        model = self.model("source", {**tensors, **zero}, {**COMPRESSED, "format": "int-quantized"})
        self.run_program(model, "-o", "out", "--recipe", "cast", code=3, says=["with zero points", KEPT])
        self.assertFalse(pathlib.Path("out").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
