"""Quantized caches of keys and values: caches_test.py HIF8_CALIBRATE DATA_DIR."""

import json
import pathlib
import sys
import unittest

import numpy as np
from plain_files import floats, read_file
from program_case import CalibrateCase

MODELS = pathlib.Path(sys.argv[2]).resolve() / "models"
QWEN2 = MODELS / "random-qwen2"


class CachesTest(CalibrateCase):
    def setUp(self):
        super().setUp()
        self.data = ("--data", self.ids(range(40), range(50, 90)))
        self.kv_heads = json.loads((QWEN2 / "config.json").read_text())["num_key_value_heads"]

    def written(self):
        config = json.loads((self.out / "config.json").read_text()).get("quantization_config")
        tensors, _ = read_file(self.out / "model.safetensors")
        return config, {name: entry for name, entry in tensors.items() if name.endswith(("k_scale", "v_scale"))}, tensors

    def test_cast_is_scale_1_and_needs_no_data(self):
        self.quantize(QWEN2, "--recipe", "cast", "--kv-cache", "cast")
        config, scales, _ = self.written()
        self.assertEqual(config["kv_cache_scheme"]["type"], "float")
        self.assertEqual({floats(entry) for entry in scales.values()}, {(1.0,)})
        self.assertEqual(len(scales), 2 * json.loads((QWEN2 / "config.json").read_text())["num_hidden_layers"])
        # What it costs is measured where there is data.
        report = self.quantize(QWEN2, "--recipe", "cast", "--kv-cache", "cast", *self.data)
        self.assertTrue(all(e["k"]["sqnr_db"] > 20 and e["k"]["scale"] == 1 for e in report["kv_cache"]))

    def test_caches_alone(self):
        report = self.quantize(QWEN2, "--recipe", "kv-cache", *self.data)
        config, scales, tensors = self.written()
        self.assertEqual([layer["name"] for layer in report["layers"] if layer["status"] == "quantized"], [])
        self.assertTrue(report["kv_cache"])
        self.assertEqual((config["config_groups"], config["format"]), ({}, "dense"))
        self.assertEqual(config["kv_cache_scheme"]["strategy"], "tensor")
        self.assertIn("model.layers.0.self_attn.q_proj", config["ignore"])
        before, _ = read_file(QWEN2 / "model.safetensors")
        self.assertEqual({name: entry for name, entry in tensors.items() if name not in scales}, before)
        self.assertTrue(scales)
        # The network is run with the rounded cache.
        self.assertLess(report["network"]["outputs"][0]["sqnr_db"], 60)
        int8 = self.quantize(QWEN2, "--recipe", "kv-cache", "--set", "kv_cache.format=int8", *self.data)
        self.assertEqual(self.written()[0]["kv_cache_scheme"]["type"], "int")
        self.assertTrue(int8["kv_cache"])

    def test_products_of_attention_are_no_caches(self):
        plain = ("--recipe", "inference", *self.data)
        self.quantize(QWEN2, *plain)
        config, _, tensors = self.written()
        self.assertIsNone(config["kv_cache_scheme"])
        report = self.quantize(QWEN2, *plain, "--attention")
        self.assertIn("scales of 6 products of attention are in calibration.yaml only", " ".join(report["run"]["warnings"]))
        self.assertEqual((self.written()[0], self.written()[2]), (config, tensors))
        self.assertEqual(report["kv_cache"], [])
        self.assertIn("model.layers.0.self_attn.qk.key", (self.out / "calibration.yaml").read_text())

    def test_one_summary(self):
        lines = []
        for args in ("--dry-run",), ("-o", self.out, "--force"):
            done = self.run_program(QWEN2, "--kv-cache", "max", *self.data, *args)
            lines.append(next(line for line in done.stdout.splitlines() if " layers and " in line).partition("; weights")[0])
        self.assertEqual(lines[0], lines[1].rpartition(";")[0])
        self.assertTrue(lines[0].startswith("21 of 28 layers and 6 caches quantized; "), lines[0])

    def test_a_scale_per_head(self):
        whole = self.quantize(QWEN2, "--recipe", "kv-cache", *self.data)
        tensor_scales = {name: floats(entry)[0] for name, entry in self.written()[1].items()}
        report = self.quantize(QWEN2, "--recipe", "kv-cache", "--set", "kv_cache.per_head=true", *self.data)
        config, scales, _ = self.written()
        self.assertEqual(config["kv_cache_scheme"]["strategy"], "attn_head")
        self.assertEqual(set(scales), set(tensor_scales))
        for name, entry in scales.items():
            self.assertEqual(entry[1], [self.kv_heads, 1, 1])
            # The largest magnitude of all heads is that of one of them.
            self.assertAlmostEqual(max(floats(entry)), tensor_scales[name], delta=1e-6 * tensor_scales[name])
        self.assertTrue(any(len(set(floats(entry))) > 1 for entry in scales.values()))
        self.assertEqual(len(report["kv_cache"]), self.kv_heads * len(whole["kv_cache"]))
        by_name = {entry["name"]: entry for entry in report["kv_cache"]}
        for head in range(self.kv_heads):
            entry = by_name[f"model.layers.0.self_attn.{head}"]
            for part in "kv":
                scale = np.float32(entry[part]["scale"])
                self.assertEqual(scale, np.float32(floats(scales[f"model.layers.0.self_attn.{part}_scale"])[head]))

    def test_what_cannot_be(self):
        latent = MODELS / "random-deepseek-v3-fp8"
        self.run_program(latent, "--dry-run", "--recipe", "kv-cache", "--set", "kv_cache.per_head=true", code=2,
                         says=["kv_cache.per_head: it has no cache of keys and values by head"])  # fmt: skip
        cache = ("--recipe", "kv-cache", "--layout", "cann")
        self.run_program(QWEN2, "--dry-run", *cache, code=2, says=["cannot hold the cache 'k' in hif8 with a scale", "kv_cache.rule"])
        self.run_program(QWEN2, "--dry-run", "--recipe", "kv-cache", "--layout", "ascendv1", code=2, says=["cannot hold a quantized cache"])

    def test_what_ascends_models_read(self):
        """INT8 of latent attention's compressed vector, beside INT8 layers."""
        latent = MODELS / "random-deepseek-v3-fp8"
        int8 = ("--set", "weights.format=int8", "--set", "activations.format=int8", "--set", "activations.granularity=token")
        cache = ("--set", "kv_cache.format=int8", "--kv-cache", "max")
        self.run_program(latent, "--dry-run", "--layout", "cann", *int8, *cache, code=2, says=["the cache 'k_rope' in int8", "--keep 'k_rope$'"])
        self.quantize(latent, "--layout", "cann", *int8, *cache, "--keep", "k_rope$", *self.data)
        config = json.loads((self.out / "config.json").read_text())["quantization_config"]
        self.assertEqual(config["kv_cache_scheme"]["type"], "int")
        tensors, _ = read_file(self.out / "model.safetensors")
        self.assertEqual(tensors["model.layers.0.self_attn.ckv_scale"][:2], ("F32", [1]))
        self.assertFalse([name for name in tensors if "k_rope_scale" in name])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
