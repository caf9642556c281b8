"""Layouts of checkpoints, read back without the project's code: layouts_test.py HIF8_CALIBRATE DATA_DIR."""

import json
import pathlib
import re
import shutil
import sys
import unittest

import numpy as np
from plain_files import read_file, write_file
from program_case import CalibrateCase

DATA = pathlib.Path(sys.argv[2]).resolve()
MODELS = DATA / "models"
INT8_STATIC = "version: 1\nweights: {format: int8}\nactivations: {format: int8}\n"
sys.path.insert(0, str(DATA / "loaders"))
import loaders  # noqa: E402


def tensors(folder):
    return {name: entry for file in sorted(folder.glob("model*.safetensors")) for name, entry in read_file(file)[0].items()}


def numbers(kind, shape, data):
    return loaders.Tensor(kind, shape, data).numbers()


class LayoutsTest(CalibrateCase):
    def recipe(self, text):
        path = self.folder / "recipe.yaml"
        path.write_text(text)
        return path

    def config(self):
        return json.loads((self.out / "config.json").read_text())

    def test_cann_divides_biases(self):
        model = MODELS / "random-qwen2"
        report = self.quantize(model, "--recipe", "cast", "--layout", "cann")
        said = [w for w in report["run"]["warnings"] if "divided" in w]
        self.assertRegex(said[0], r"layout cann: the biases of \d+ HiF8 layers are divided by their weights' scales")
        before, after = tensors(model), tensors(self.out)
        biases = [name for name in before if name.endswith("_proj.bias")]
        self.assertTrue(biases)
        for name in biases:
            scale = numbers(*after[name.replace(".bias", ".weight_scale")])
            self.assertEqual(after[name.replace(".bias", ".weight_scale")][0], "BF16")
            self.assertEqual(after[name][0], "F32")
            expected = (numbers(*before[name]) / scale[:, 0]).astype(np.float32)
            np.testing.assert_array_equal(numbers(*after[name]).astype(np.float32), expected)

    def test_cann_settings(self):
        self.quantize(MODELS / "random-qwen3-moe", "--recipe", "w4a8-moe", "--set", "activations.rule=cast", "--layout", "cann")
        config = self.config()["quantization_config"]
        self.assertEqual(config["format"], "float-quantized")
        groups = config["config_groups"]
        self.assertEqual([group["targets"] for group in groups.values()], [["Linear"], ["MoEGMM"]])
        self.assertEqual(groups["group_0"]["format"], "hif8-quantized")
        written = tensors(self.out)
        self.assertFalse([name for name in written if name.endswith("_packed")])
        # Half a byte for each of 64 inputs, and scales of groups of 32.
        expert = "model.layers.0.mlp.experts.0.gate_proj"
        self.assertEqual(written[expert + ".weight"][:2], ("U8", [48, 32]))
        self.assertEqual(written[expert + ".weight_scale"][:2], ("U8", [48, 2]))

    def test_kept_modules_are_named_as_the_loader_names_them(self):
        self.quantize(
            MODELS / "random-qwen3-moe", "--recipe", "cast", "--layout", "cann", "--keep", "experts", "--keep", r"layers\.0\.self_attn\.k_proj",
        )  # fmt: skip
        ignore = self.config()["quantization_config"]["ignore"]
        for name in ("lm_head", "model.layers.0.self_attn.merged_qkv_proj", "model.layers.0.self_attn.q_proj", "model.layers.2.mlp.experts"):
            self.assertIn(name, ignore)

    def test_fp8_blocks_and_mx_alone_are_native(self):
        fp8 = self.recipe("version: 1\nweights: {format: fp8_e4m3_block}\nactivations: {format: fp8_e4m3_block}\n")
        self.quantize(MODELS / "random-qwen2", "--recipe", fp8, "--layout", "cann", "--only", "o_proj|down_proj")
        config = self.config()["quantization_config"]
        self.assertEqual((config["quant_method"], config["weight_block_size"]), ("fp8", [128, 128]))
        self.assertIn("model.layers.0.self_attn.merged_qkv_proj", config["ignored_layers"])
        self.assertEqual(tensors(self.out)["model.layers.0.self_attn.o_proj.scale"][:2], ("F32", [1, 1]))
        mx = self.recipe("version: 1\nweights: {format: mxfp8}\nactivations: {format: mxfp8}\n")
        self.quantize(MODELS / "random-qwen3-moe", "--recipe", mx, "--layout", "cann")
        self.assertEqual(self.config()["quantization_config"]["quant_method"], "mxfp8")

    def test_what_a_layout_cannot_hold(self):
        recipe = self.recipe("version: 1\nlayout: cann\nweights:\n  granularity: tensor\n")
        data = ("--data", self.ids(range(40)), "-o", self.out)
        self.run_program(MODELS / "random-qwen2", "--recipe", recipe, *data, code=2, says=[
            "activations.rule: layout cann cannot hold static activation scales", "what would do: activations.rule: cast", "recipe.yaml:2:9",
        ])  # fmt: skip
        self.assertFalse(self.out.exists())
        self.run_program(MODELS / "random-qwen2", "--recipe", recipe, "--activation-scale", "cast", "--dry-run", code=2, says=[
            "weights.granularity: layout cann cannot hold weights of hif8 with scales per tensor", "recipe.yaml:4:16",
        ])  # fmt: skip
        cases = [
            (["--layout", "ascendv1", "--recipe", "cast"], ["cannot hold HiF8, which has no type in its descriptions"]),
            (["--layout", "cann", "--set", "weights.format=fp8_e4m3", "--set", "activations.format=fp8_e4m3", "--set",
              "activations.granularity=token"], ["weights.format: layout cann cannot hold layers of fp8_e4m3", "--set"]),
            (["--layout", "cann", "--recipe", "cast", "--kv-cache", "max"], ["kv_cache.rule: layout cann cannot hold the cache 'k'"]),
            (["--layout", "nothing"], ["compressed-tensors, cann, ascendv1"]),
            (["--layout", "cann", "--recipe", "cast", "--set", "embeddings=true"], ["cannot hold quantized embeddings"]),
        ]  # fmt: skip
        for args, says in cases:
            with self.subTest(args):
                self.run_program(MODELS / "random-pangu-embedded", "--dry-run", *args, code=2, says=says)
        # Decoded weights have no layout.
        self.run_program(MODELS / "random-qwen2", *data, "--layout", "cann", "--export", "simulated", "-q")
        # Experts in HiF8, and shapes that the operators do not take.
        self.run_program(MODELS / "random-qwen3-moe", "--dry-run", "--recipe", "cast", "--layout", "cann", code=2,
                         says=["cannot hold experts of hif8", "w4a8-moe"])  # fmt: skip
        mx = ("--set", "weights.format=mxfp8", "--set", "activations.format=mxfp8")
        self.run_program(MODELS / "random-qwen2", "--dry-run", "--layout", "cann", *mx, code=2, says=["160 inputs in MX formats"])
        self.run_program(MODELS / "random-qwen2", "--dry-run", "--layout", "cann", *mx, "--keep", "down_proj")

    def test_ascendv1_describes_every_tensor(self):
        model = MODELS / "random-qwen2"
        report = self.quantize(
            model, "--recipe", self.recipe(INT8_STATIC), "--layout", "ascendv1", "--data", self.ids(range(40), range(50, 90)), "--keep", "o_proj",
        )  # fmt: skip
        self.assertNotIn("quantization_config", self.config())
        description = json.loads((self.out / "quant_model_description.json").read_text())
        before, after = tensors(model), tensors(self.out)
        self.assertEqual(description["model_quant_type"], "W8A8")
        self.assertEqual(set(after) | {"version", "model_quant_type"}, set(description))
        layer = "model.layers.0.self_attn.q_proj"
        for part in ("weight", "weight_scale", "deq_scale", "quant_bias", "input_scale", "input_offset"):
            self.assertEqual(description[f"{layer}.{part}"], "W8A8")
        for name in ("model.norm.weight", layer + ".bias", "model.layers.0.self_attn.o_proj.weight"):
            self.assertEqual(description[name], "FLOAT")
        get = lambda part: numbers(*after[f"{layer}.{part}"])  # noqa: E731
        deq = (get("input_scale").astype(np.float32) * get("weight_scale").astype(np.float32)[:, 0]).astype(np.float32)
        np.testing.assert_array_equal(get("deq_scale").astype(np.float32), deq)
        self.assertLessEqual(np.abs(get("quant_bias") - numbers(*before[layer + ".bias"]) / deq).max(), 0.501)
        # Loaders keep both kinds of scales in BF16.
        for part in ("input_scale", "weight_scale"):
            np.testing.assert_array_equal(loaders.to_bf16(get(part)), get(part))
        scales = {entry["name"]: entry for entry in report["layers"]}
        self.assertEqual(np.float32(scales[layer]["activation"]["scale"]), get("input_scale").astype(np.float32)[0])

    def test_ascendv1_in_half_precision(self):
        model = self.folder / "half"
        shutil.copytree(MODELS / "random-qwen2", model)
        config = json.loads((model / "config.json").read_text())
        config.pop("dtype", None)
        (model / "config.json").write_text(json.dumps({**config, "torch_dtype": "float16"}))
        self.quantize(model, "--recipe", self.recipe(INT8_STATIC), "--layout", "ascendv1", "--data", self.ids(range(40)))
        after = tensors(self.out)
        layer = "model.layers.0.mlp.up_proj"
        kind, shape, data = after[layer + ".deq_scale"]
        self.assertEqual((kind, shape), ("I64", [160]))
        bits = np.frombuffer(data, np.int64)
        scale = numbers(*after[layer + ".input_scale"]) * numbers(*after[layer + ".weight_scale"])[:, 0]
        np.testing.assert_array_equal((bits & 0xFFFFFFFF).astype(np.uint32).view(np.float32), scale.astype(np.float32))

    def test_policy_of_the_converters(self):
        def kept(*args):
            done = self.run_program(MODELS / "random-deepseek-v3-fp8", "--dry-run", "--json", "--set", "weights.format=int8", "--set",
                                    "activations.format=int8", "--set", "activations.granularity=token", *args)  # fmt: skip
            return {re.sub(r"\d+", "N", row["name"]): row["reason"] for row in json.loads(done.stdout)["layers"] if row["status"] == "kept"}

        reason = "policy cann: Ascend's converters keep it"
        name = "model.layers.N.self_attn.kv_b_proj"
        self.assertNotIn(name, kept())
        self.assertEqual(kept("--layout", "cann")[name], reason)
        self.assertEqual(kept("--set", "policy=cann")[name], reason)
        self.assertNotIn(name, kept("--layout", "cann", "--set", "policy=none"))

    def test_a_bias_in_another_file_stands_behind_its_weight(self):
        source, _ = read_file(MODELS / "random-qwen2" / "model.safetensors")
        model = self.folder / "two"
        model.mkdir()
        shutil.copy(MODELS / "random-qwen2" / "config.json", model)
        names = {name: f"model-0000{1 + name.endswith('.bias')}-of-00002.safetensors" for name in source}
        for file in set(names.values()):
            write_file(model / file, {name: entry for name, entry in source.items() if names[name] == file})
        (model / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
        args = ("--recipe", "cast", "--layout", "cann")
        self.quantize(MODELS / "random-qwen2", *args)
        one = tensors(self.out)
        self.quantize(model, *args)
        self.assertEqual(tensors(self.out), one)
        index = json.loads((self.out / "model.safetensors.index.json").read_text())["weight_map"]
        self.assertEqual(set(index), set(one))
        self.assertEqual(index["model.layers.0.self_attn.q_proj.bias"], "model-00001-of-00002.safetensors")
        for k in (1, 2):
            self.run_program(model, *args, "--shards", f"{k}/2", "-o", self.folder / f"part{k}")
        self.run_program("merge", self.folder / "part1", self.folder / "part2", "-o", self.folder / "merged", "--source", model)
        self.assertEqual(tensors(self.folder / "merged"), one)

    def test_parts_are_the_whole(self):
        recipe = self.recipe("version: 1\nweights: {format: int8}\nactivations: {format: int8, granularity: token}\n")
        for layout in ("cann", "ascendv1"):
            args = ("--recipe", recipe, "--layout", layout)
            self.quantize(MODELS / "random-llama", *args)
            whole = {p.name: p.read_bytes() for p in self.out.iterdir() if p.is_file() and p.name not in ("report.json", "calibration.yaml")}
            for k in (1, 2):
                self.run_program(MODELS / "random-llama", *args, "--shards", f"{k}/2", "-o", self.folder / f"{layout}{k}")
            self.run_program("merge", self.folder / f"{layout}1", self.folder / f"{layout}2", "-o", self.folder / f"{layout}-merged")
            merged = {name: (self.folder / f"{layout}-merged" / name).read_bytes() for name in whole}
            self.assertEqual(merged, whole)


class DeepSeekV4Test(CalibrateCase):
    """A made-up block of DeepSeek-V4 with its own names."""

    RANK, GROUPS = 32, 2

    def model(self):
        folder = self.folder / "v4"
        folder.mkdir()
        rng = np.random.default_rng(4)
        shapes = {"embed": (64, 128), "head": (64, 128), "layers.0.ffn.gate": (2, 128)}
        for part, shape in {
            "wq_a": (64, 128), "wq_b": (96, 64), "wkv": (64, 128), "wo_a": (self.RANK * self.GROUPS, 64), "wo_b": (128, 64),
            "compressor.wkv": (64, 128), "compressor.wgate": (64, 128), "indexer.wq_b": (64, 64), "indexer.weights_proj": (4, 128),
            "indexer.compressor.wkv": (64, 128), "indexer.compressor.wgate": (64, 128),
        }.items():  # fmt: skip
            shapes[f"layers.0.attn.{part}"] = shape
        for expert in ("experts.0", "experts.1", "shared_experts"):
            for part, shape in {"w1": (64, 128), "w2": (128, 64), "w3": (64, 128)}.items():
                shapes[f"layers.0.ffn.{expert}.{part}"] = shape
        values = {name: rng.standard_normal(shape).astype(np.float32) * rng.uniform(0.5, 2, (shape[0], 1)) for name, shape in shapes.items()}
        bits = {name: (loaders.to_bf16(v).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for name, v in values.items()}
        write_file(folder / "model.safetensors", {f"{name}.weight": ("BF16", list(b.shape), b.tobytes()) for name, b in bits.items()})
        config = {"model_type": "deepseek_v4", "torch_dtype": "bfloat16", "o_lora_rank": self.RANK, "num_hidden_layers": 1}
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def test_native_names(self):
        model = self.model()
        args = ("--recipe", "w4a8-moe", "--set", "activations.rule=cast", "--layout", "cann")
        self.quantize(model, *args)
        config = json.loads((self.out / "config.json").read_text())["quantization_config"]
        self.assertEqual([group["targets"] for group in config["config_groups"].values()], [["Linear"], ["MoEGMM"]])
        self.assertEqual(config["kv_cache_scheme"], {"num_bits": 8, "type": "float"})
        self.assertEqual(config["li_cache_scheme"], {"num_bits": 8, "type": "float"})
        self.assertIn("head", config["ignore"])
        written = tensors(self.out)
        self.assertFalse([name for name in written if "weight_scale" in name])
        for name, kind, shape in (("attn.wq_a", "BF16", [64, 1]), ("ffn.shared_experts.w1", "U8", [64, 4]), ("ffn.experts.1.w2", "U8", [128, 2])):
            self.assertEqual(written[f"layers.0.{name}.scale"][:2], (kind, shape))
        # One scale for the same row of all groups: the operator has those of the first only.
        scale = numbers(*written["layers.0.attn.wo_a.scale"]).reshape(self.GROUPS, self.RANK)
        np.testing.assert_array_equal(scale[0], scale[1])
        rows = loaders.check(str(model), str(self.out), ["cann-v4"])["cann-v4"]
        self.assertEqual({row["verdict"] for row in rows}, {"right"}, [r for r in rows if r["verdict"] != "right"])
        self.assertEqual(sum(row["verdict"] == "right" for row in rows), 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
