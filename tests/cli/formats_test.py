"""Checkpoints in every number format, read back: formats_test.py HIF8_CALIBRATE DATA_DIR.

Shares no code with the project: formats are decoded from their bit fields, HiF8 by the golden table, with numpy.
"""

import json
import math
import pathlib
import re
import sys
import unittest

import numpy as np
from plain_files import read_file, write_file
from plain_formats import E2M1, E4M3, E5M2, hif8, nearest
from program_case import CalibrateCase

DATA = pathlib.Path(sys.argv[2])
MODELS = DATA / "models"
HIF8 = hif8(DATA)
DTYPES = {"U8": np.uint8, "I8": np.int8, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8, "F32": "<f4", "F16": "<f2"}


def array(tensor):
    dtype, shape, data = tensor
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    return np.frombuffer(data, DTYPES[dtype]).reshape(shape)


def spread(scales, shape, rows, columns):
    """A scale for every element, from one per tile of rows x columns."""
    return np.repeat(np.repeat(scales, rows, 0)[: shape[0]], columns, 1)[:, : shape[1]]


def source_values(tensors, name):
    """A weight as it was; DeepSeek's FP8 has scales per block of 128 x 128."""
    values = array(tensors[name])
    if tensors[name][0] == "F8_E4M3":
        scales = array(tensors[name + "_scale_inv"])
        return (E4M3[values].astype(np.float32) * spread(scales, values.shape, 128, 128)).astype(np.float64)
    return values.astype(np.float64)


def group_amax(x, size):
    padded = np.pad(np.abs(x), ((0, 0), (0, -x.shape[1] % size)))
    return padded.reshape(x.shape[0], -1, size).max(2)


class FormatsTest(CalibrateCase):
    def recipe(self, text):
        path = self.folder / "recipe.yaml"
        path.write_text("version: 1\n" + text)
        return path

    def ids_of(self, model):
        _, shape, data = read_file(model / "reference.safetensors")[0]["input_ids"]
        return self.ids(*np.frombuffer(data, "<i8").reshape(shape).tolist())

    @staticmethod
    def tensors(folder):
        found = {}
        for path in sorted(folder.glob("model*.safetensors")):
            found.update(read_file(path)[0])
        return found

    def check_sqnr(self, x, y, reported, name):
        noise = ((x - y.astype(np.float32)) ** 2).sum()  # values are fp32 products
        if noise == 0:
            self.assertEqual(reported, "inf", name)
        else:
            self.assertAlmostEqual(10 * math.log10((x * x).sum() / noise), reported, delta=0.01, msg=name)

    def scale_exponents(self, written, name, shape, x, emax):
        dtype, scale_shape, _ = written[name + "_scale"]
        rows = 32 if scale_shape[0] < shape[0] else 1  # in blocks or in groups
        self.assertEqual((dtype, scale_shape), ("U8", [-(-shape[0] // rows), -(-shape[1] // 32)]), name)
        codes = array(written[name + "_scale"]).astype(np.int64)
        amax = group_amax(x, 32)
        amax = np.pad(amax, ((0, -len(amax) % rows), (0, 0))).reshape(-1, rows, amax.shape[1]).max(1)
        expected = np.where(amax > 0, np.frexp(amax)[1] - 1 - emax + 127, 0)
        np.testing.assert_array_equal(codes, np.clip(expected, 0, 254), name)
        return spread(np.exp2(codes - 127.0), shape, rows, 32)

    def scales_over_one(self, written, name, shape, x):
        """NVFP4's: E4M3 numbers per 16 inputs, over 448 * 6 / amax of the tensor."""
        f4 = np.float32
        (kind, one, _), (dtype, scale_shape, _) = written[name + "_global_scale"], written[name + "_scale"]
        self.assertEqual((kind, one), ("F32", [1]), name)
        self.assertEqual((dtype, scale_shape), ("F8_E4M3", [shape[0], -(-shape[1] // 16)]), name)
        global_scale, codes = array(written[name + "_global_scale"])[0], array(written[name + "_scale"])
        self.assertEqual(global_scale, f4(448 * 6) / f4(np.abs(x).max()), name)
        wanted = group_amax(x, 16).astype(f4) / f4(6) * global_scale
        expected = np.maximum(E4M3[nearest(E4M3, wanted.astype(np.float64))], 2.0**-9)
        np.testing.assert_array_equal(E4M3[codes], expected, name)
        return spread((E4M3[codes].astype(f4) / global_scale).astype(np.float64), shape, 1, 16)

    def decode(self, written, name, layer_format, x):
        """The values of a written weight, and a check of its layout."""
        shape = x.shape
        if layer_format in ("mxfp4", "nvfp4"):
            dtype, packed_shape, _ = written[name + "_packed"]
            self.assertNotIn(name, written)
            self.assertEqual((dtype, packed_shape), ("U8", [shape[0], -(-shape[1] // 2)]))
            packed = array(written[name + "_packed"])
            codes = np.stack([packed & 15, packed >> 4], 2).reshape(shape[0], -1)
            self.assertFalse(codes[:, shape[1] :].any(), "padding")
            values = E2M1[codes[:, : shape[1]]]
            if layer_format == "mxfp4":
                return values * self.scale_exponents(written, name, shape, x, 2)
            scales = self.scales_over_one(written, name, shape, x)
            quotients = (x.astype(np.float32) / scales.astype(np.float32)).astype(np.float64)
            np.testing.assert_array_equal(values, E2M1[nearest(E2M1, np.clip(quotients, -6, 6))], name)
            return values * scales
        dtype, codes = written[name][0], array(written[name])
        self.assertEqual(codes.shape, shape)
        if layer_format == "mxfp8":
            self.assertEqual(dtype, "F8_E4M3")
            return E4M3[codes] * self.scale_exponents(written, name, shape, x, 8)
        table, stored = {
            "hif8": (HIF8, "U8"),
            "fp8_e4m3": (E4M3, "F8_E4M3"),
            "fp8_e4m3_block": (E4M3, "F8_E4M3"),
            "fp8_e5m2": (E5M2, "F8_E5M2"),
            "int8": (None, "I8"),
        }[layer_format]
        self.assertEqual(dtype, stored, name)
        values = codes.astype(np.float64) if table is None else table[codes]
        scales = array(written[name + "_scale"]).astype(np.float64)
        if scales.shape == (1,):
            return values * scales[0]
        tiles = [-(-n // s) if s > 1 else n for n, s in zip(shape, scales.shape)]
        if layer_format == "fp8_e4m3_block":
            tiles = [128, 128]
            self.assertEqual(list(scales.shape), [-(-n // 128) for n in shape])
        return values * spread(scales, shape, *tiles)

    def check_weights(self, model, report):
        """Every weight's SQNR from the written bytes; returns how many weights each format has."""
        sources, written = self.tensors(model), self.tensors(self.out)
        counts = {}
        for layer in report["layers"]:
            if layer["status"] != "quantized":
                continue
            weight, name = layer["weight"], layer["name"] + ".weight"
            x = source_values(sources, name)
            y = self.decode(written, name, weight["format"], x)
            self.check_sqnr(x, y, weight["sqnr_db"], name)
            counts[weight["format"]] = counts.get(weight["format"], 0) + 1
        return counts

    def groups_of(self, report):
        """The config group of every quantized Linear, found as compressed-tensors does it."""
        config = json.loads((self.out / "config.json").read_text())["quantization_config"]
        found = {}
        for layer in report["layers"]:
            name = layer["name"]
            if layer["op"] != "Linear":
                continue
            if layer["status"] != "quantized":
                self.assertIn(name, config["ignore"])
                continue
            matching = []
            for group in config["config_groups"].values():
                exact = name in group["targets"]
                pattern = any(t.startswith("re:") and re.match(t[3:], name) for t in group["targets"])
                if exact or pattern:
                    matching.append(group)
            self.assertLessEqual(len(matching), 1, name)
            usual = [g for g in config["config_groups"].values() if g["targets"] == ["Linear"]]
            found[name] = (matching or usual)[0]
        return config, found

    def test_mixed_formats(self):
        model = MODELS / "random-llama"
        recipe = self.recipe(
            """
activations: {rule: cast}
overrides:
  - {match: 'layers\\.0\\.mlp', weights: {format: mxfp4}, activations: {format: mxfp8}}
  - {match: 'layers\\.1\\.mlp', weights: {format: mxfp8}, activations: {format: mxfp8}}
  - {match: 'layers\\.2\\.mlp', weights: {format: fp8_e4m3_block}, activations: {format: fp8_e4m3_block}}
  - {match: 'layers\\.0\\.self_attn', weights: {format: fp8_e4m3}, activations: {format: fp8_e4m3, granularity: token, rule: max}}
  - {match: 'layers\\.1\\.self_attn\\.(q|k|v)_proj', weights: {format: fp8_e5m2, granularity: tensor}}
  - {match: 'layers\\.1\\.self_attn\\.o_proj', weights: {format: int8}, activations: {format: int8, granularity: token, rule: max}}
"""
        )
        report = self.quantize(model, "--recipe", recipe, "--data", self.ids_of(model))
        counts = self.check_weights(model, report)
        self.assertEqual(
            counts,
            {"hif8": 4, "mxfp4": 3, "mxfp8": 3, "fp8_e4m3_block": 3, "fp8_e4m3": 4, "fp8_e5m2": 3, "int8": 1},
        )
        config, groups = self.groups_of(report)
        self.assertEqual(config["format"], "hif8-quantized")
        self.assertEqual(config["number_format"], "hif8")

        def scheme(layer):
            group = groups["model.layers." + layer]
            weights, inputs = group["weights"], group["input_activations"]
            return (
                group["format"],
                (weights["num_bits"], weights["type"], weights["strategy"], weights["group_size"]),
                (inputs["num_bits"], inputs["strategy"], inputs["group_size"], inputs["dynamic"]),
            )

        self.assertEqual(
            scheme("0.mlp.up_proj"), ("mxfp4-pack-quantized", (4, "float", "group", 32), (8, "group", 32, True))
        )
        self.assertEqual(
            scheme("1.mlp.up_proj"), ("mxfp8-quantized", (8, "float", "group", 32), (8, "group", 32, True))
        )
        self.assertEqual(
            scheme("2.mlp.up_proj"), ("float-quantized", (8, "float", "block", None), (8, "group", 128, True))
        )
        self.assertEqual(groups["model.layers.2.mlp.up_proj"]["weights"]["block_structure"], [128, 128])
        self.assertEqual(
            scheme("0.self_attn.q_proj"), ("float-quantized", (8, "float", "channel", None), (8, "token", None, True))
        )
        self.assertEqual(
            scheme("1.self_attn.o_proj"), ("int-quantized", (8, "int", "channel", None), (8, "token", None, True))
        )
        self.assertEqual(
            scheme("2.self_attn.q_proj"), ("hif8-quantized", (8, "float", "channel", None), (8, "tensor", None, True))
        )
        # Activations were simulated in the format that the plan says.
        by_name = {layer["name"]: layer for layer in report["layers"]}
        for name, least, most in (("0.mlp.down_proj", 24, 36), ("1.self_attn.o_proj", 30, 50)):
            activation = by_name["model.layers." + name]["activation"]
            self.assertTrue(least < activation["sqnr_db"] < most, (name, activation))
            self.assertIsNone(activation["scale"])

    def test_what_was_written_is_among_what_is_compared(self):
        model = MODELS / "random-llama"
        for settings in (
            ["activations.rule=percentile", "activations.percentile=95", "activations.clip=true"],
            ["activations.rule=mse", "mse.objective=output"],
            ["activations.rule=ema", "weights.rule=mse", "weights.scale_dtype=bf16", "activations.power_of_two=true"],
            ["weights.format=mxfp4", "activations.format=mxfp4"],
            ["weights.format=nvfp4", "activations.format=nvfp4"],
            ["weights.format=mxfp8", "weights.granularity=block", "activations.format=mxfp8"],
            ["activations.granularity=token", "weights.granularity=group"],
        ):
            options = [part for setting in settings for part in ("--set", setting)]
            report = self.quantize(model, "--data", self.ids_of(model), "--compare", "int8", *options)
            rows = {(c["layer"], c["operand"], c["format"]): c["sqnr_db"] for c in report["comparisons"]}
            for layer in (l for l in report["layers"] if l["status"] == "quantized"):
                for operand in ("weight", "activation", "output"):
                    with self.subTest(settings=settings, layer=layer["name"], operand=operand):
                        compared = rows[layer["name"], operand, layer["weight"]["format"]]
                        self.assertAlmostEqual(compared, layer[operand]["sqnr_db"], delta=1e-3)

    def test_w4a8_moe_from_an_fp8_checkpoint(self):
        model = MODELS / "random-deepseek-v3-fp8"
        report = self.quantize(model, "--recipe", "w4a8-moe", "--data", self.ids_of(model))
        counts = self.check_weights(model, report)
        self.assertEqual(set(counts), {"mxfp4", "mxfp8", "hif8"})
        config, groups = self.groups_of(report)
        for name, group in groups.items():
            expert, shared = ".experts." in name, ".shared_experts." in name
            expected = "mxfp4-pack-quantized" if expert else "mxfp8-quantized" if shared else "hif8-quantized"
            self.assertEqual(group["format"], expected, name)
            self.assertEqual(group["input_activations"]["dynamic"], expert or shared, name)
        self.assertEqual(len(config["config_groups"]), 3)
        self.assertEqual(config["quant_method"], "compressed-tensors")
        self.assertIn("lm_head", config["ignore"])
        self.assertGreater(report["network"]["perplexity"]["quantized"], 0)
        self.assertFalse([n for n in self.tensors(self.out) if n.endswith("scale_inv")])
        four = self.quantize(model, "--recipe", "w4a4-moe", "--data", self.ids_of(model))
        self.assertEqual(self.check_weights(model, four), counts)
        sqnr = [r["network"]["outputs"][0]["sqnr_db"] for r in (report, four)]
        self.assertGreater(sqnr[0], sqnr[1])

    def test_tails_that_do_not_fill_a_block(self):
        random = np.random.default_rng(5)
        shapes = {"a": (3, 1), "b": (7, 31), "c": (5, 33), "d": (129, 257), "e": (128, 64), "f": (1, 130)}
        model = self.folder / "model"
        model.mkdir()
        weights = {}
        for name, shape in shapes.items():
            weights[name] = (random.standard_t(4, shape) * 0.02).astype(np.float32)
        weights["c"][1, :16] *= 1e-7  # a group whose scale would be no E4M3 number
        weights["d"][3, 32:64] = 0  # a group of zeros
        weights["d"][4, 32:64] = 1e-39  # and one below what scales reach
        tensors = {f"{n}.weight": ("F32", list(w.shape), w.tobytes()) for n, w in weights.items()}
        write_file(model / "model.safetensors", tensors)
        formats = {
            "mxfp4": "",
            "nvfp4": "",
            "mxfp8": "",
            "fp8_e4m3_block": "",
            "int8": ", granularity: group",
            "fp8_e5m2": ", granularity: block, scale_dtype: bf16",
        }
        for number_format, more in formats.items():
            recipe = self.recipe(f"weights: {{format: {number_format}{more}}}\nactivations: {{rule: cast}}\n")
            report = self.quantize(model, "--recipe", recipe)
            if more:
                written = self.tensors(self.out)
                edges = (1, 32) if "group" in more else (128, 128)
                scale_dtype = "BF16" if "bf16" in more else "F32"
                for name, shape in shapes.items():
                    dtype, scales, _ = written[f"{name}.weight_scale"]
                    self.assertEqual(dtype, scale_dtype)
                    self.assertEqual(scales, [-(-shape[0] // edges[0]), -(-shape[1] // edges[1])])
                    x = weights[name].astype(np.float64)
                    codes = array(written[f"{name}.weight"])
                    values = codes if number_format == "int8" else E5M2[codes]
                    y = values * spread(array(written[f"{name}.weight_scale"]), shape, *edges)
                    layer = next(l for l in report["layers"] if l["name"] == name)
                    self.check_sqnr(x, y, layer["weight"]["sqnr_db"], name)
            else:
                self.assertEqual(self.check_weights(model, report), {number_format: len(shapes)})

    def test_nvfp4_as_compressed_tensors_has_it(self):
        model = MODELS / "random-llama"
        both = "weights: {format: nvfp4}\nactivations: {format: nvfp4}\n"
        for text, more in ((both, ["--data", self.ids_of(model)]), (both.replace("format: nvfp4}\n", "rule: cast}\n", 2)
                            .replace("weights: {rule: cast}", "weights: {format: nvfp4}"), [])):  # fmt: skip
            report = self.quantize(model, "--recipe", self.recipe(text), *more)
            self.assertEqual(self.check_weights(model, report), {"nvfp4": 21})
            written = self.tensors(self.out)
            config = json.loads((self.out / "config.json").read_text())["quantization_config"]
            group = config["config_groups"]["group_0"]
            weights = group["weights"]
            self.assertEqual(
                [weights[k] for k in ("num_bits", "type", "strategy", "group_size", "dynamic", "symmetric")],
                [4, "float", "tensor_group", 16, False, True],
            )
            self.assertNotIn("scale_dtype", weights)
            names = [n for n in written if n.endswith("input_global_scale")]
            if not more:
                self.assertEqual(config["format"], "hif8-quantized")  # of the inputs
                self.assertEqual(names, [])
                continue
            self.assertEqual((config["format"], group["format"]), ("nvfp4-pack-quantized",) * 2)
            inputs = group["input_activations"]
            self.assertEqual([inputs[k] for k in ("num_bits", "strategy", "group_size", "dynamic")],
                             [4, "tensor_group", 16, "local"])  # fmt: skip
            self.assertEqual(len(names), 21)
            self.assertFalse([n for n in written if n.endswith(".input_scale")])
            for layer in report["layers"]:
                if layer["status"] == "quantized":
                    found = array(written[layer["name"] + ".input_global_scale"])[0]
                    self.assertAlmostEqual(found * layer["activation"]["amax"] / (448 * 6), 1, delta=1e-6)
                    self.assertTrue(12 < layer["activation"]["sqnr_db"] < 30, layer)

    def test_mxfp8_in_blocks_where_the_recipe_asks_for_them(self):
        model = MODELS / "random-llama"
        recipe = self.recipe("weights: {format: mxfp8, granularity: block}\nactivations: {format: mxfp8}\n")
        report = self.quantize(model, "--recipe", recipe)
        self.assertEqual(self.check_weights(model, report), {"mxfp8": 21})
        written = self.tensors(self.out)
        name = "model.layers.0.mlp.down_proj.weight"
        self.assertEqual(written[name + "_scale"][1], [-(-n // 32) for n in written[name][1]])
        group = json.loads((self.out / "config.json").read_text())["quantization_config"]["config_groups"]["group_0"]
        self.assertEqual([group["weights"][k] for k in ("strategy", "group_size", "block_structure")],
                         ["block", None, [32, 32]])  # fmt: skip
        self.assertEqual(group["input_activations"]["group_size"], 32)

    def test_a_simulated_export_has_the_decoded_values(self):
        model = MODELS / "random-llama"
        recipe = self.recipe("weights: {format: mxfp4}\nactivations: {rule: cast}\n")
        report = self.quantize(model, "--recipe", recipe)
        decoded = {}
        written, sources = self.tensors(self.out), self.tensors(model)
        for layer in report["layers"]:
            if layer["status"] == "quantized":
                name = layer["name"] + ".weight"
                decoded[name] = self.decode(written, name, "mxfp4", source_values(sources, name))
        self.quantize(model, "--recipe", recipe, "--export", "simulated")
        simulated = self.tensors(self.out)
        self.assertEqual(set(simulated), set(sources))
        for name, values in decoded.items():
            self.assertEqual(simulated[name][0], sources[name][0])
            np.testing.assert_array_equal(array(simulated[name]), values, name)  # exact in BF16
        self.assertEqual(len(decoded), 21)

    def test_what_cannot_be_is_refused(self):
        model = MODELS / "random-llama"
        for text, words in (
            ("weights: {format: mxfp4, rule: mse}\nactivations: {rule: cast}\n", "use rule max"),
            ("activations: {format: mxfp8, rule: ema}\n", "use rule max"),
            ("kv_cache: {format: mxfp8, rule: max}\n", "caches have one static scale"),
            ("weights: {format: nvfp4, rule: mse}\nactivations: {rule: cast}\n", "use rule max"),
            ("weights: {format: mxfp4, granularity: block}\nactivations: {rule: cast}\n", "use granularity group"),
            ("weights: {format: fp8_e4m3_block, granularity: group}\nactivations: {rule: cast}\n", "use granularity block"),
        ):
            done = self.run_program(model, "-o", self.out, "--recipe", self.recipe(text), code=2)
            self.assertIn(words, done.stderr)
            self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
