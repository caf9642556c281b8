"""activations.rule: off, through the program: weight_only_test.py HIF8_CALIBRATE DATA_DIR.

What is written is read with numpy alone: ONNX field by field, checkpoints by their headers.
"""

import json
import pathlib
import sys
import unittest

import numpy as np
from onnx_emit import Graph, fields_of, model, node, value
from onnx_program import weight
from plain_files import floats, read_file
from plain_formats import hif8
from plain_onnx import Decoder, sqnr
from program_case import CalibrateCase

DATA = pathlib.Path(sys.argv[2]).resolve()
QWEN2, MOE = DATA / "models/random-qwen2", DATA / "models/random-qwen3-moe"
HIF8 = hif8(DATA)


def values(tensor):
    return np.array(floats(tensor), "f8").reshape(tensor[1])


class OnnxCases(CalibrateCase):
    W1, W2 = weight(16, 24), weight(24, 8)

    def setUp(self):
        super().setUp()
        self.enter_folder()
        self.x = np.random.default_rng(3).standard_normal((32, 16)).astype("f4")
        np.save("x.npy", self.x)
        nodes = [node("MatMul", "x a", "h", "first"), node("MatMul", "h b", "y", "second")]
        graph = Graph([value("x", [32, 16])], [value("y", [32, 8])], nodes, {"a": self.W1, "b": self.W2})
        pathlib.Path("m.onnx").write_bytes(model(graph))

    def nodes(self):
        """(operator, inputs) of the written graph."""
        graph = next(fields_of(v) for n, v in fields_of((self.out / "model.onnx").read_bytes()) if n == 7)
        parts = [fields_of(v) for n, v in graph if n == 1]
        return [(dict(p)[4].decode(), [v.decode() for n, v in p if n == 1]) for p in parts]

    def test_activations_have_no_rounding_nodes(self):
        report = self.quantize("m.onnx", "--data", "x.npy", "--recipe", "weight-only")
        nodes = self.nodes()
        self.assertEqual(sorted(op for op, _ in nodes), ["DequantizeLinear", "DequantizeLinear", "MatMul", "MatMul"])
        products = [inputs for op, inputs in nodes if op == "MatMul"]
        self.assertEqual([inputs[0] for inputs in products], ["x", "h"])
        decoder = Decoder(self.out / "model.onnx", HIF8)
        first, second = (decoder.value(inputs[1]) for inputs in products)
        expected = sqnr(self.x.astype("f8") @ self.W1 @ self.W2, self.x.astype("f8") @ first @ second)
        self.assertAlmostEqual(report["network"]["outputs"][0]["sqnr_db"], expected, delta=0.01)
        for layer in report["layers"]:
            self.assertTrue(layer["weight_only"])
            self.assertIsNone(layer["activation"])
        # Nothing is to be chosen by data, and the same is written without any.
        written = (self.out / "model.onnx").read_bytes()
        self.quantize("m.onnx", "--recipe", "weight-only")
        self.assertEqual((self.out / "model.onnx").read_bytes(), written)

    def test_one_layer_alone(self):
        override = "overrides=[{match: second, activations: {rule: off}}]"
        report = self.quantize("m.onnx", "--data", "x.npy", "--set", override)
        self.assertEqual([layer["weight_only"] for layer in report["layers"]], [False, True])
        nodes = self.nodes()
        self.assertEqual(sum(op == "QuantizeDequantizeLinear" for op, _ in nodes), 1)
        read = [inputs[0] for op, inputs in nodes if op == "MatMul"]
        self.assertNotEqual(read[0], "x")
        self.assertEqual(read[1], "h")
        plan = json.loads(self.run_program("m.onnx", "--dry-run", "--json", "--set", override).stdout)
        self.assertEqual(plan["summary"]["weight_only"], 1)
        told = self.run_program("m.onnx", "--dry-run", "--set", override).stdout
        self.assertIn("2 of 2 layers quantized (1 of them weight-only)", told)

    def test_layers_that_read_one_tensor_agree(self):
        nodes = [node("MatMul", "x a", "h", "first"), node("MatMul", "x b", "y", "second")]
        outputs = [value("h", [32, 24]), value("y", [32, 8])]
        graph = Graph([value("x", [32, 16])], outputs, nodes, {"a": self.W1, "b": weight(16, 8)})
        pathlib.Path("m.onnx").write_bytes(model(graph))
        for one in ("first", "second"):
            override = f"overrides=[{{match: {one}, activations: {{rule: off}}}}]"
            says = ("share the tensor 'x'", "write one override that matches both")
            self.run_program("m.onnx", "--dry-run", "--set", override, code=2, says=says)


class CheckpointCases(CalibrateCase):
    def config(self):
        return json.loads((self.out / "config.json").read_text())["quantization_config"]

    def test_groups_have_no_input_activations(self):
        for number_format in ("hif8", "fp8_e4m3", "mxfp4", "nvfp4", "int8"):
            report = self.quantize(QWEN2, "--recipe", "weight-only", "--set", f"weights.format={number_format}")
            groups = self.config()["config_groups"]
            self.assertEqual([group["input_activations"] for group in groups.values()], [None])
            written = read_file(self.out / "model.safetensors")[0]
            self.assertFalse([name for name in written if "input" in name and "layernorm" not in name])
            self.assertTrue(all(x["weight_only"] for x in report["layers"] if x["status"] == "quantized"))
        # Of the last run: INT8, decoded here.
        name = "model.layers.0.mlp.up_proj"
        codes = np.frombuffer(written[name + ".weight"][2], "i1").reshape(written[name + ".weight"][1])
        decoded = codes * values(written[name + ".weight_scale"])
        original = values(read_file(QWEN2 / "model.safetensors")[0][name + ".weight"])
        reported = next(x for x in report["layers"] if x["name"] == name)["weight"]["sqnr_db"]
        self.assertAlmostEqual(sqnr(original, decoded), reported, delta=0.01)

    def test_the_network_is_that_of_the_decoded_weights(self):
        # Of weights that are codes already nothing is lost: the output is that of the original, bit for bit.
        ids, power = self.ids(range(40), range(50, 90)), ("--set", "weights.power_of_two=true")
        self.quantize(QWEN2, "--recipe", "weight-only", "--export", "simulated", *power)
        simulated = self.folder / "simulated"
        self.out.rename(simulated)
        report = self.quantize(simulated, "--recipe", "weight-only", "--data", ids, *power)
        self.assertEqual(report["network"]["outputs"][0]["sqnr_db"], "inf")
        report = self.quantize(simulated, "--recipe", "cast", "--data", ids, *power)
        self.assertLess(report["network"]["outputs"][0]["sqnr_db"], 50)

    def test_some_layers(self):
        recipe = self.folder / "recipe.yaml"
        recipe.write_text("version: 1\noverrides:\n  - {match: down_proj, activations: {rule: off}}\n")
        report = self.quantize(QWEN2, "--recipe", recipe, "--data", self.ids(range(40)))
        groups = list(self.config()["config_groups"].values())
        self.assertEqual(groups[0]["input_activations"]["dynamic"], False)
        self.assertIsNone(groups[1]["input_activations"])
        self.assertEqual(groups[1]["targets"], [r"re:^model\.layers\.\d+\.mlp\.down_proj$"])
        open_layers = [x["name"] for x in report["layers"] if x["weight_only"]]
        self.assertTrue(open_layers)
        self.assertTrue(all(name.endswith("down_proj") for name in open_layers))
        written = read_file(self.out / "model.safetensors")[0]
        self.assertIn("model.layers.0.mlp.up_proj.input_scale", written)
        self.assertNotIn("model.layers.0.mlp.down_proj.input_scale", written)

    def test_what_loaders_run_as_one_is_completed(self):
        override = "overrides=[{match: q_proj, activations: {rule: off}}]"
        report = self.quantize(QWEN2, "--data", self.ids(range(40)), "--set", override)
        for layer in report["layers"]:
            if layer["status"] == "quantized":
                merged = any(part in layer["name"] for part in ("q_proj", "k_proj", "v_proj"))
                self.assertEqual(layer["weight_only"], merged, layer["name"])

    def test_ascendv1_holds_int8(self):
        self.quantize(QWEN2, "--recipe", "weight-only", "--layout", "ascendv1", "--set", "weights.format=int8")
        types = json.loads((self.out / "quant_model_description.json").read_text())
        self.assertEqual(types["model_quant_type"], "W8A16")
        name = "model.layers.0.mlp.up_proj."
        own = {key.removeprefix(name): value for key, value in types.items() if key.startswith(name)}
        self.assertEqual(own, dict.fromkeys(("weight", "weight_scale", "weight_offset"), "W8A16"))
        written = read_file(self.out / "model.safetensors")[0]
        self.assertEqual(written[name + "weight"][0], "I8")
        self.assertFalse(any(values(written[name + "weight_offset"]).ravel()))

    def test_what_layouts_refuse(self):
        for model_path, layout, number_format, says in (
            (QWEN2, "cann", "hif8", "cannot hold weight-only layers, which its loader has no class for"),
            (QWEN2, "ascendv1", "mxfp4", "cannot hold layers of mxfp4 with inputs in full precision"),
            (MOE, "ascendv1", "int8", "cannot hold experts of int8 with inputs in full precision"),
        ):
            args = ["-o", self.out, "--layout", layout, "--recipe", "weight-only", "--set", f"weights.format={number_format}"]
            self.run_program(model_path, *args, code=2, says=("activations.rule: layout " + layout, says))
            self.assertFalse(self.out.exists())

    def test_settings_that_have_no_effect(self):
        args = ["--dry-run", "--recipe", "weight-only", "--attention", "--set", "activations.clip=true"]
        told = self.run_program(QWEN2, *args)
        for key in ("attention", "activations.clip"):
            self.assertIn(f"{key} has no effect: activations.rule is off", told.stderr)
        self.assertIn("kept: activations.rule is off", told.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
