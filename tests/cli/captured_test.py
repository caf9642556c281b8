"""Captured activations, and convolutions of checkpoints: captured_test.py HIF8_CALIBRATE DATA_DIR."""

import json
import pathlib
import sys
import unittest

import numpy as np
from plain_files import floats, read_file, sqnr, write_file
from plain_formats import hif8, nearest
from program_case import CalibrateCase

DATA = pathlib.Path(sys.argv[2])
TABLE = hif8(DATA)


def f32(values):
    values = np.asarray(values, dtype="<f4")
    return ("F32", list(values.shape), values.tobytes())


def decoded(tensors, name):
    """What the codes of a written weight stand for."""
    kind, shape, data = tensors[name]
    assert kind == "U8"
    scale = np.array(floats(tensors[name + "_scale"])).reshape(tensors[name + "_scale"][1])
    return TABLE[np.frombuffer(data, "u1")].reshape(shape) * scale


class Captured(CalibrateCase):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        self.weights = {"net.a.weight": random.normal(size=(8, 16)), "net.a.bias": random.normal(size=8),
                        "net.conv.weight": random.normal(size=(4, 3, 3, 3))}  # fmt: skip
        self.rows = random.normal(size=(8, 16)).astype("f4").astype("f8")
        self.pixels = random.normal(size=(1, 3, 6, 6))
        self.model = self.folder / "model"
        self.model.mkdir()
        write_file(self.model / "model.safetensors", {n: f32(w) for n, w in self.weights.items()})
        captured = self.folder / "captured"
        (captured / "0").mkdir(parents=True)
        # The first sample is a folder of files, in both of which the layer has rows.
        write_file(captured / "0" / "a.safetensors", {"net.a": f32(self.rows[:3])})
        write_file(captured / "0" / "b.safetensors", {"net.a": f32(self.rows[3:5])})
        write_file(captured / "1.safetensors", {"net.a": f32(self.rows[5:]), "net.conv": f32(self.pixels)})
        self.captured = captured


class CapturedTest(Captured):
    def test_outputs_are_measured(self):
        report = self.quantize(self.model, "--activations", self.captured)
        self.assertEqual(report["run"]["data"]["samples"], 2)
        layers = {layer["name"]: layer for layer in report["layers"]}
        written, _ = read_file(self.out / "model.safetensors")
        scale = floats(written["net.a.input_scale"])[0]
        self.assertAlmostEqual(scale * 16 / np.abs(self.rows).max(), 1, delta=1e-6)
        rounded = TABLE[nearest(TABLE, self.rows / scale)] * scale
        w, bias = (np.asarray(self.weights[f"net.a.{n}"], "f4").astype("f8") for n in ("weight", "bias"))
        expected = sqnr(list((self.rows @ w.T + bias).ravel()),
                        list((rounded @ decoded(written, "net.a.weight").T + bias).ravel()))  # fmt: skip
        self.assertAlmostEqual(layers["net.a"]["output"]["sqnr_db"], expected, delta=1e-3)
        self.assertAlmostEqual(layers["net.a"]["activation"]["sqnr_db"],
                               sqnr(list(self.rows.ravel()), list(rounded.ravel())), delta=1e-3)  # fmt: skip
        self.assertIsNone(layers["net.conv"]["output"])
        self.assertGreater(layers["net.conv"]["activation"]["sqnr_db"], 20)

    def test_the_output_objective(self):
        report = self.quantize(self.model, "--activations", self.captured, "--activation-scale", "mse",
                               "--set", "mse.objective=output")  # fmt: skip
        layers = {layer["name"]: layer for layer in report["layers"]}
        self.assertEqual(layers["net.a"]["activation"]["notes"], [])
        self.assertIn("cannot run alone", layers["net.conv"]["activation"]["notes"][0])
        best = layers["net.a"]["output"]["sqnr_db"]
        self.assertGreaterEqual(best, self.plain() - 1e-9)

    def plain(self):
        report = self.quantize(self.model, "--activations", self.captured)
        return next(layer["output"]["sqnr_db"] for layer in report["layers"] if layer["name"] == "net.a")

    def test_inputs_of_another_width_are_refused(self):
        write_file(self.captured / "1.safetensors", {"net.a": f32(self.rows[5:, :4])})
        done = self.run_program(self.model, "-o", self.out, "--activations", self.captured, code=3)
        self.assertIn("'net.a': expected rows of 16 values", done.stderr)

    def test_caches(self):
        model = DATA / "models" / "random-llama"
        captured = self.folder / "caches"
        captured.mkdir()
        width = next(t[1][0] for n, t in self.tensors(model).items() if n.endswith("0.self_attn.k_proj.weight"))
        values = np.random.default_rng(4).normal(size=(7, width))
        write_file(captured / "0.safetensors", {"model.layers.1.self_attn.k": f32(values),
                                                "model.layers.1.self_attn.v": f32(values / 2)})  # fmt: skip
        report = self.quantize(model, "--activations", captured, "--kv-cache", "max")
        entry = next(e for e in report["kv_cache"] if e["name"] == "model.layers.1.self_attn")
        written = self.tensors(self.out)
        for kind, factor in (("k", 1), ("v", 0.5)):
            x = np.asarray(values * factor, "f4").astype("f8")
            scale = floats(written[f"model.layers.1.self_attn.{kind}_scale"])[0]
            self.assertAlmostEqual(scale * 16 / np.abs(x).max(), 1, delta=1e-6)
            rounded = TABLE[nearest(TABLE, x / scale)] * scale
            self.assertAlmostEqual(entry[kind]["sqnr_db"], sqnr(list(x.ravel()), list(rounded.ravel())), delta=1e-3)

    @staticmethod
    def tensors(folder):
        found = {}
        for path in sorted(folder.glob("model*.safetensors")):
            found.update(read_file(path)[0])
        return found


class ConvolutionTest(Captured):
    def test_convolutions_have_a_scale_for_each_channel(self):
        report = self.quantize(self.model, "--activations", self.captured)
        written, _ = read_file(self.out / "model.safetensors")
        self.assertEqual(written["net.conv.weight_scale"][1], [4, 1, 1, 1])
        w = np.asarray(self.weights["net.conv.weight"], "f4").astype("f8")
        scales = np.array(floats(written["net.conv.weight_scale"]))
        np.testing.assert_allclose(scales * 16, np.abs(w).max((1, 2, 3)), rtol=1e-6)
        layer = next(x for x in report["layers"] if x["name"] == "net.conv")
        self.assertEqual(layer["op"], "Conv")
        expected = sqnr(list(w.ravel()), list(decoded(written, "net.conv.weight").ravel()))
        self.assertAlmostEqual(layer["weight"]["sqnr_db"], expected, delta=1e-3)
        self.assertIn("multiply-adds of 1 convolutions are not known", " ".join(report["run"]["warnings"]))

    def test_the_plan_says_what_it_does_not_know(self):
        plan = json.loads(self.run_program(self.model, "--recipe", "cast", "--dry-run", "--json").stdout)
        self.assertEqual(plan["summary"]["layers_without_known_macs"], 1)
        for recipe in ("weights.granularity=group", "weights.format=mxfp8"):
            report = self.quantize(self.model, "--recipe", "cast", "--set", recipe)
            layers = {layer["name"]: layer for layer in report["layers"]}
            self.assertEqual(layers["net.a"]["status"], "quantized")
            self.assertIn("per tensor or channel", layers["net.conv"]["reason"])

    def test_a_network_of_images(self):
        model = DATA / "models" / "families" / "random-vit"
        random = np.random.default_rng(5)
        path = self.folder / "pixels.npy"
        np.save(path, random.normal(size=(3, 3, 32, 32)).astype("f4"))
        report = self.quantize(model, "--data", path, "--set", "lm_head=true")
        layers = {layer["name"]: layer for layer in report["layers"]}
        for name in ("vit.embeddings.patch_embeddings.projection", "vit.encoder.layer.2.output.dense", "classifier"):
            self.assertGreater(layers[name]["output"]["sqnr_db"], 20, name)
            self.assertIsNotNone(layers[name]["activation"]["scale"], name)
        self.assertEqual(report["network"]["outputs"][0]["name"], "logits")
        self.assertIsNone(report["network"]["perplexity"])
        self.assertEqual(report["run"]["data"]["samples"], 3)
        self.run_program(model, "-o", self.out, "--force", "--data", self.ids([1, 2]), code=3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
