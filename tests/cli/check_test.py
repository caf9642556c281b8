"""Descriptions of model families as a user writes them: check_test.py HIF8_CALIBRATE DATA_DIR."""

import json
import pathlib
import shutil
import struct
import sys
import unittest

import numpy as np
from plain_files import floats, read_file, write_file
from program_case import CalibrateCase

DATA = pathlib.Path(sys.argv[2])
FAMILIES = DATA / "models" / "families"
OLMOE = DATA.resolve().parent.parent / "samples" / "architectures" / "olmoe.yaml"


def f32(values):
    values = np.asarray(values, dtype="<f4")
    return ("F32", list(values.shape), values.tobytes())


def with_inputs(model, target):
    """The reference of a model with the largest inputs of its layers."""
    tensors, _ = read_file(model / "reference.safetensors")
    amax = json.loads((model / "reference.json").read_text())["input_amax"]
    for name, value in amax.items():
        tensors[f"input_amax.{name}"] = ("F32", [1], struct.pack("<f", value))
    write_file(target, tensors)


class Olmoe:
    """A small random network of a family that the program has no description of, with numpy."""

    config = {
        "model_type": "olmoe", "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2,
        "norm_topk_prob": False, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": 64,
        "tie_word_embeddings": False, "hidden_act": "silu", "clip_qkv": None, "torch_dtype": "float32",
    }  # fmt: skip

    def __init__(self):
        random = np.random.default_rng(5)
        c, w = self.config, {}

        def linear(name, rows, columns):
            w[name] = random.normal(size=(rows, columns)).astype("f4") / np.float32(np.sqrt(columns))

        def norm(name, size):
            w[name] = (1 + 0.3 * random.normal(size=size)).astype("f4")

        h, i, kv = c["hidden_size"], c["intermediate_size"], c["hidden_size"] // 2
        linear("model.embed_tokens.weight", c["vocab_size"], h)
        linear("lm_head.weight", c["vocab_size"], h)
        norm("model.norm.weight", h)
        for n in range(c["num_hidden_layers"]):
            p = f"model.layers.{n}."
            for name, rows in (("q", h), ("k", kv), ("v", kv), ("o", h)):
                linear(f"{p}self_attn.{name}_proj.weight", rows, h)
            norm(p + "self_attn.q_norm.weight", h)
            norm(p + "self_attn.k_norm.weight", kv)
            norm(p + "input_layernorm.weight", h)
            norm(p + "post_attention_layernorm.weight", h)
            linear(p + "mlp.gate.weight", c["num_experts"], h)
            for e in range(c["num_experts"]):
                linear(f"{p}mlp.experts.{e}.gate_proj.weight", i, h)
                linear(f"{p}mlp.experts.{e}.up_proj.weight", i, h)
                linear(f"{p}mlp.experts.{e}.down_proj.weight", h, i)
        self.weights = w

    def save(self, folder):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(self.config))
        write_file(folder / "model.safetensors", {n: f32(t) for n, t in self.weights.items()})

    def run(self, ids):
        """What a recording has."""
        c, w = self.config, {n: t.astype("f8") for n, t in self.weights.items()}
        heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
        length, recorded = len(ids), {"input_ids": ("I64", [1, len(ids)], np.array(ids, "<i8").tobytes())}

        def apply(x, name):
            key = f"input_amax.{name}"
            before = np.frombuffer(recorded[key][2], "<f4")[0] if key in recorded else 0
            recorded[key] = f32([max(before, np.abs(x).max())])
            return x @ w[name + ".weight"].T

        def norm(x, name):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w[name + ".weight"]

        def rotate(x):
            half = x.shape[-1] // 2
            angles = np.outer(np.arange(length), c["rope_theta"] ** (-np.arange(half) / half))
            a, b = x[..., :half], x[..., half:]
            return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)

        def softmax(x):
            x = np.exp(x - x.max(-1, keepdims=True))
            return x / x.sum(-1, keepdims=True)

        def by_head(x, n):
            return x.reshape(length, n, -1).transpose(1, 0, 2)

        x = w["model.embed_tokens.weight"][ids]
        for n in range(c["num_hidden_layers"]):
            p, a = f"model.layers.{n}.", f"model.layers.{n}.self_attn."
            h = norm(x, p + "input_layernorm")
            q = rotate(by_head(norm(apply(h, a + "q_proj"), a + "q_norm"), heads))
            k = rotate(by_head(norm(apply(h, a + "k_proj"), a + "k_norm"), kv_heads)).repeat(heads // kv_heads, 0)
            v = by_head(apply(h, a + "v_proj"), kv_heads).repeat(heads // kv_heads, 0)
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
            scores += np.where(np.tri(length), 0, -np.inf)
            x = x + apply((softmax(scores) @ v).transpose(1, 0, 2).reshape(length, -1), a + "o_proj")
            h = norm(x, p + "post_attention_layernorm")
            chances = softmax(apply(h, p + "mlp.gate"))
            for t in range(length):
                for e in np.argsort(-chances[t])[: c["num_experts_per_tok"]]:
                    m, row = f"{p}mlp.experts.{e}.", h[t : t + 1]
                    gate = apply(row, m + "gate_proj")
                    y = apply(gate / (1 + np.exp(-gate)) * apply(row, m + "up_proj"), m + "down_proj")
                    x[t] += chances[t, e] * y[0]
            recorded[f"hidden_states.{n}"] = f32(x[None])
        recorded["logits"] = f32(apply(norm(x, "model.norm"), "lm_head")[None])
        return recorded


class CheckTest(CalibrateCase):
    def test_the_built_in_description_agrees_with_a_recording(self):
        with_inputs(FAMILIES / "random-gpt-oss", self.folder / "reference.safetensors")
        self.run_program("check", FAMILIES / "random-gpt-oss", "--reference", self.folder / "reference.safetensors",
                         says=["block 1", "The networks agree."])

    def test_a_wrong_description_is_told_where_it_parts(self):
        model = FAMILIES / "random-glm4"
        with_inputs(model, self.folder / "reference.safetensors")
        good = (
            "version: 1\nmodel_types: [glm4]\nnorm:\n  attention_output: post_self_attn_layernorm\n"
            "  mlp_output: post_mlp_layernorm\nattention:\n  qkv_bias: true\nrope:\n"
            "  dim: attention.head_dim * 0.5\n  interleaved: true\nmlp:\n  gate_up: gate_up_proj\n"
        )
        own = self.folder / "own.yaml"
        args = ("check", model, "--architecture", own, "--reference", self.folder / "reference.safetensors")
        own.write_text(good)
        self.run_program(*args, says=["The networks agree."])
        for change, says in (
            (("  interleaved: true\n", ""), "block 0, before 'model.layers.0.mlp.gate_up_proj'"),
            (("  gate_up:", "  activation: gelu\n  gate_up:"), "block 0, before 'model.layers.0.mlp.down_proj'"),
            (("  mlp_output: post_mlp_layernorm\n", ""), "block 0"),
        ):
            own.write_text(good.replace(*change))
            self.run_program(*args, code=1, says=["They part in " + says])

    def test_a_family_of_the_users_own(self):
        network, model = Olmoe(), self.folder / "model"
        network.save(model)
        write_file(self.folder / "reference.safetensors", network.run([3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 63]))
        check = ("check", model, "--reference", self.folder / "reference.safetensors")
        self.run_program(*check, code=3, says=["model_type 'olmoe' is not known", "--architecture"])
        self.run_program(*check, "--architecture", OLMOE, says=["The networks agree."])
        # Beside config.json it needs no option, and its experts are run and quantized.
        shutil.copy(OLMOE, model / "hif8_architecture.yaml")
        self.run_program(*check, says=["The networks agree."])
        report = self.quantize(model, "--data", self.ids([3, 1, 4, 1, 5], [9, 2, 6, 5, 35]))
        layers = {layer["name"]: layer for layer in report["layers"]}
        self.assertIn("routers", layers["model.layers.0.mlp.gate"]["reason"])
        self.assertGreater(report["network"]["perplexity"]["quantized"], 1)

    def test_mistakes_in_a_description(self):
        own = self.folder / "own.yaml"
        own.write_text("version: 1\nmodel_types: [x]\natention:\n  heads: 4\nnorm:\n  typo: rms\n  type: rsm\n"
                       "rope:\n  theta: sqr($a)\n")  # fmt: skip
        done = self.run_program(FAMILIES / "random-glm4", "--architecture", own, "--dry-run", code=2)
        for text in (":3:1", "'attention'", ":6:3", "'type'", ":7:9", "'rms'", ":9:10", "'sqrt'"):
            self.assertIn(text, done.stderr)


class ByDescriptionTest(CalibrateCase):
    def test_a_head_that_is_tied_by_default_is_ignored(self):
        self.quantize(FAMILIES / "random-gemma2", "--recipe", "cast")
        config = json.loads((self.out / "config.json").read_text())
        self.assertNotIn("tie_word_embeddings", config)
        self.assertIn("lm_head", config["quantization_config"]["ignore"])

    def test_roles_are_those_of_the_description(self):
        # The router's name says nothing here.
        network, model = Olmoe(), self.folder / "model"
        network.weights = {n.replace("mlp.gate.", "mlp.chooser."): w for n, w in network.weights.items()}
        network.save(model)
        own = self.folder / "own.yaml"
        own.write_text(OLMOE.read_text().replace("experts:\n", "experts:\n  router: mlp.chooser\n"))
        self.quantize(model, "--recipe", "cast", "--architecture", own)
        tensors, _ = read_file(self.out / "model.safetensors")
        self.assertNotIn("model.layers.0.mlp.chooser.weight_scale", tensors)
        self.assertIn("model.layers.0.mlp.experts.0.up_proj.weight_scale", tensors)

    def test_fused_qkv_has_scales_of_the_cache(self):
        self.quantize(FAMILIES / "random-phi3", "--data", self.ids([1, 2, 3, 4, 5]), "--kv-cache", "max")
        tensors, _ = read_file(self.out / "model.safetensors")
        self.assertIn("model.layers.1.self_attn.k_scale", tensors)
        self.assertIn("model.layers.1.self_attn.v_scale", tensors)

    def test_towers_and_draft_blocks_stay_unless_asked_for(self):
        model = FAMILIES / "random-gemma3-wrapped"
        name = "vision_tower.vision_model.encoder.layers.0.mlp.fc1"
        report = self.quantize(model, "--recipe", "cast")
        layers = {layer["name"]: layer for layer in report["layers"]}
        self.assertIn("a tower for images or sounds beside the language model", layers[name]["reason"])
        self.assertIn("vision_tower.vision_model.embeddings.patch_embedding", layers)
        report = self.quantize(model, "--recipe", "cast", "--set", "beside=true")
        layers = {layer["name"]: layer for layer in report["layers"]}
        self.assertEqual(layers[name]["status"], "quantized")

        # Without a description the same is guessed by names, and the plan says that it is a guess.
        model = self.folder / "model"
        shutil.copytree(FAMILIES / "random-qwen3-next", model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "model_type": "unknown"}))
        tensors, _ = read_file(model / "model.safetensors")
        tensors["mtp.layers.0.self_attn.o_proj.weight"] = tensors["model.layers.3.self_attn.o_proj.weight"]
        tensors["visual.blocks.0.attn.proj.weight"] = tensors["model.layers.3.self_attn.o_proj.weight"]
        write_file(model / "model.safetensors", tensors)
        done = self.run_program(model, "--recipe", "cast", "--dry-run", "--json")
        plan = json.loads(done.stdout)
        self.assertIn("guessed by their names: model_type 'unknown' is not known", plan["caveat"])
        reasons = {layer["name"]: layer["reason"] for layer in plan["layers"]}
        self.assertIn("multi-token prediction", reasons["mtp.layers.0.self_attn.o_proj"])
        self.assertIn("tower", reasons["visual.blocks.0.attn.proj"])
        self.assertIn("(one by its name)", reasons["model.layers.0.mlp.gate"])
        self.assertEqual(reasons["model.layers.3.self_attn.o_proj"], "")
        self.assertEqual(json.loads(self.run_program(FAMILIES / "random-qwen3-next", "--recipe", "cast", "--dry-run",
                                                     "--json").stdout)["caveat"], "")  # fmt: skip

    def test_a_layer_named_like_a_router_is_what_the_description_says(self):
        network, model = Olmoe(), self.folder / "model"
        network.weights = {n.replace("self_attn.o_proj.", "self_attn.gate."): w for n, w in network.weights.items()}
        network.save(model)
        own = self.folder / "own.yaml"
        own.write_text(OLMOE.read_text().replace("attention:\n", "attention:\n  o: self_attn.gate\n"))
        report = self.quantize(model, "--recipe", "cast", "--architecture", own)
        layers = {layer["name"]: layer for layer in report["layers"]}
        self.assertEqual(layers["model.layers.0.self_attn.gate"]["status"], "quantized")

    def test_experts_of_an_unknown_orientation_stay(self):
        model = self.folder / "model"
        shutil.copytree(FAMILIES / "random-gpt-oss", model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "model_type": "unknown"}))
        report = self.quantize(model, "--recipe", "cast")
        layers = {layer["name"]: layer for layer in report["layers"]}
        self.assertIn("without a description", layers["model.layers.0.mlp.experts.down_proj"]["reason"])

    def test_quantized_networks_are_measured(self):
        # A network with every kind of block of its family, both networks side by side, attention's products too.
        for family in ("gpt-oss", "llama4-text", "qwen3-next", "deepseek-v32", "gemma3-wrapped", "cohere2"):
            report = self.quantize(FAMILIES / f"random-{family}", "--data", self.ids(list(range(40)), list(range(90, 50, -1))),
                                   "--kv-cache", "max", "--attention")  # fmt: skip
            loss = report["network"]["perplexity"]
            self.assertLess(abs(loss["loss_gap_percent"]), 10, family)
            self.assertNotEqual(loss["original"], loss["quantized"], family)


class FusedExpertsTest(CalibrateCase):
    def test_experts_stored_in_out_have_scales_along_their_outputs(self):
        for family, expected in (("random-gpt-oss", ([8, 64, 96], [8, 1, 96])),
                                 ("random-llama4-text", ([4, 64, 96], [4, 1, 96]))):  # fmt: skip
            model = FAMILIES / family
            self.quantize(model, "--recipe", "cast")
            written, _ = read_file(self.out / "model.safetensors")
            before, _ = read_file(model / "model.safetensors")
            name = next(n for n in written if n.endswith("1.mlp.experts.gate_up_proj") or
                        n.endswith("1.feed_forward.experts.gate_up_proj"))  # fmt: skip
            self.assertEqual((written[name][1], written[name + "_scale"][1]), expected)
            self.assertEqual(before[name][1], expected[0])
            scales = np.array(floats(written[name + "_scale"])).reshape(expected[1])
            amax = np.abs(np.array(floats(before[name])).reshape(expected[0])).max(1, keepdims=True)
            ratio = scales / amax  # power of two or not, the scale follows its own channel
            self.assertGreater(np.corrcoef(np.log(scales).ravel(), np.log(amax).ravel())[0, 1], 0.5, ratio)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
