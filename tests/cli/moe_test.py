"""Mixture of experts and latent attention: moe_test.py HIF8_CALIBRATE DATA_DIR."""

import json
import math
import pathlib
import shutil
import struct
import sys
import unittest

import numpy as np
from plain_files import floats, read_file, sqnr, write_file
from program_case import CalibrateCase

DATA = pathlib.Path(sys.argv[2])
MODELS = DATA / "models"


def e4m3(code):
    exponent, fraction = code >> 3 & 15, code & 7
    value = math.ldexp(fraction, -9) if exponent == 0 else math.ldexp(8 + fraction, exponent - 10)
    return -value if code & 128 else value


def fp32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16(x):
    """Bytes of x rounded to nearest, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def decode_blocks(codes, scales, block=128):
    """E4M3 with one scale for each 128 x 128 values."""
    _, (rows, columns), data = codes
    values, per_row = floats(scales), scales[1][1]
    return [fp32(e4m3(data[r * columns + c]) * values[r // block * per_row + c // block])
            for r in range(rows) for c in range(columns)]


def latent_block(config, w, ids):
    """Mean loss of a network of one dense block with latent attention without compressed queries, and what o_proj
    reads."""
    heads, nope, rope = config["num_attention_heads"], config["qk_nope_head_dim"], config["qk_rope_head_dim"]
    rank, length = config["kv_lora_rank"], len(ids)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * w[name]

    def rotate(x):  # [..., T, rope], neighbours are pairs
        angles = np.outer(np.arange(length), config["rope_theta"] ** (-np.arange(0, rope, 2) / rope))
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
        return np.concatenate([turned.real, turned.imag], -1)

    x = w["model.embed_tokens"][ids]
    p, a = "model.layers.0.", "model.layers.0.self_attn."
    h = norm(x, p + "input_layernorm")
    q = (h @ w[a + "q_proj"].T).reshape(length, heads, -1).transpose(1, 0, 2)
    kv_a = h @ w[a + "kv_a_proj_with_mqa"].T
    kv = (norm(kv_a[:, :rank], a + "kv_a_layernorm") @ w[a + "kv_b_proj"].T).reshape(length, heads, -1)
    kv = kv.transpose(1, 0, 2)
    scores = q[..., :nope] @ kv[..., :nope].transpose(0, 2, 1) + rotate(q[..., nope:]) @ rotate(kv_a[:, rank:]).T
    scores = scores / math.sqrt(nope + rope) + np.triu(np.full((length, length), -np.inf), 1)
    chances = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = chances / chances.sum(-1, keepdims=True) @ kv[..., nope:]
    mixed = mixed.transpose(1, 0, 2).reshape(length, -1)
    x = x + mixed @ w[a + "o_proj"].T
    h = norm(x, p + "post_attention_layernorm")
    gate = h @ w[p + "mlp.gate_proj"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w[p + "mlp.up_proj"].T)) @ w[p + "mlp.down_proj"].T
    logits = norm(x, "model.norm") @ w["lm_head"].T
    logits = logits - logits.max(-1, keepdims=True)
    losses = np.log(np.exp(logits).sum(-1))[:-1] - logits[np.arange(length - 1), ids[1:]]
    return losses.mean(), np.abs(mixed).max()


class MoeTest(CalibrateCase):
    def setUp(self):
        super().setUp()
        self.data = ("--data", self.ids(range(40), range(40, 80)))

    def quantize(self, model, *args):
        """The report, the quantization's entry in config.json, and the tensors."""
        report = super().quantize(model, *args)
        config = json.loads((self.out / "config.json").read_text())["quantization_config"]
        return report, config, read_file(self.out / "model.safetensors")[0]

    def changed(self, name, change):
        """A copy of a model with other tensors."""
        model = self.folder / name
        shutil.copytree(MODELS / name, model)
        tensors, _ = read_file(model / "model.safetensors")
        write_file(model / "model.safetensors", change(tensors), {"format": "pt"})
        return model

    def test_fp8_is_decoded_exactly(self):
        model = MODELS / "random-deepseek-v3-fp8"
        _, _, written = self.quantize(model, "--recipe", "cast", "--keep", r"layers\.1\.")
        sources, _ = read_file(model / "model.safetensors")
        checked = 0
        for name, tensor in sources.items():
            if tensor[0] != "F8_E4M3" or ".layers.1." not in name:
                continue
            expected = b"".join(map(bf16, decode_blocks(tensor, sources[name + "_scale_inv"])))
            self.assertEqual(written[name], ("BF16", tensor[1], expected), name)
            checked += 1
        self.assertGreater(checked, 10)
        self.assertFalse([n for n in written if "scale_inv" in n])

    def test_codes_are_of_the_decoded_values(self):
        model = MODELS / "random-deepseek-v3-fp8"
        report, _, written = self.quantize(model, "--recipe", "cast")
        sources, _ = read_file(model / "model.safetensors")
        layer = next(l for l in report["layers"] if l["name"].endswith("layers.1.mlp.experts.3.up_proj"))
        name = layer["name"] + ".weight"
        with open(DATA / "golden" / "hif8_values.csv", encoding="utf-8") as file:
            header, *lines = [line.strip().split(",") for line in file]
        table = [float(line[header.index("value")]) for line in lines]
        x = decode_blocks(sources[name], sources[name + "_scale_inv"])
        scales, columns = floats(written[name + "_scale"]), written[name][1][1]
        y = [table[c] * scales[i // columns] for i, c in enumerate(written[name][2])]
        self.assertAlmostEqual(sqnr(x, y), layer["weight"]["sqnr_db"], delta=0.01)

    def test_latent_cache_has_two_entries(self):
        report, config, written = self.quantize(MODELS / "random-deepseek-v3-fp8", *self.data, "--kv-cache", "max")
        entries = {e["name"]: e for e in report["kv_cache"]}
        self.assertEqual(len(entries), 6)
        for block in range(3):
            for tensor in ("kv_latent", "k_rope"):
                name = f"model.layers.{block}.self_attn.{tensor}"
                operand = entries[name]["k"]
                self.assertGreater(operand["sqnr_db"], 20)
                self.assertGreaterEqual(operand["zero_rate"], 0)
                self.assertEqual(fp32(operand["scale"]), floats(written[name + "_scale"])[0])
                self.assertIsNone(entries[name]["v"])
        self.assertFalse(config["kv_cache_scheme"]["dynamic"])

    def test_queries_that_are_not_compressed(self):
        source = MODELS / "random-deepseek-v3-fp8"
        config = json.loads((source / "config.json").read_text())
        config.update(num_hidden_layers=1, q_lora_rank=None, rope_scaling=None)
        hidden = config["hidden_size"]
        rows = config["num_attention_heads"] * (config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
        values = np.random.default_rng(3).normal(0, 0.1, rows * hidden)

        def change(tensors):
            kept = {n: t for n, t in tensors.items() if ".layers." not in n or (".layers.0." in n and ".q_" not in n)}
            kept["model.layers.0.self_attn.q_proj.weight"] = ("BF16", [rows, hidden], b"".join(map(bf16, values)))
            return kept

        model = self.changed(source.name, change)
        (model / "config.json").write_text(json.dumps(config))
        weights = {}
        tensors, _ = read_file(model / "model.safetensors")
        for name, tensor in tensors.items():
            if name.endswith(".weight"):
                fp8 = tensor[0] == "F8_E4M3"
                flat = decode_blocks(tensor, tensors[name + "_scale_inv"]) if fp8 else floats(tensor)
                weights[name[:-7]] = np.array(flat).reshape(tensor[1])
        report, _, written = self.quantize(model, *self.data)
        expected = [latent_block(config, weights, np.arange(first, first + 40)) for first in (0, 40)]
        loss = math.log(report["network"]["perplexity"]["original"])
        self.assertAlmostEqual(loss, np.mean([loss for loss, _ in expected]), delta=1e-5)
        amax = max(amax for _, amax in expected)
        scale = floats(written["model.layers.0.self_attn.o_proj.input_scale"])[0]
        self.assertAlmostEqual(scale * 16 / amax, 1, delta=1e-5)

    def test_blocks_for_multi_token_prediction(self):
        def add(tensors):
            for name, tensor in list(tensors.items()):
                if name.startswith("model.layers.2."):
                    tensors[name.replace("layers.2.", "layers.3.")] = tensor
            hidden = tensors["model.norm.weight"][1][0]
            tensors["model.layers.3.enorm.weight"] = tensors["model.norm.weight"]
            tensors["model.layers.3.eh_proj.weight"] = ("BF16", [hidden, 2 * hidden], b"\x12\x3c" * (2 * hidden * hidden))
            tensors["model.layers.3.embed_tokens.weight"] = tensors["model.embed_tokens.weight"]
            tensors["model.layers.3.shared_head.head.weight"] = tensors["lm_head.weight"]
            return tensors

        model = self.changed("random-deepseek-v3-fp8", add)
        report, config, written = self.quantize(model, *self.data)
        layers = {l["name"]: l for l in report["layers"]}
        for name in ("model.layers.3.eh_proj", "model.layers.3.mlp.experts.0.up_proj"):
            self.assertEqual(layers[name]["status"], "kept")
            self.assertIn("multi-token prediction", layers[name]["reason"])
            self.assertIn("beside: true", layers[name]["reason"])
            self.assertIn(name, config["ignore"])
            self.assertEqual(written[name + ".weight"][0], "BF16")

        report, config, written = self.quantize(model, *self.data, "--set", "beside=true")
        layers = {l["name"]: l for l in report["layers"]}
        for name in ("model.layers.3.eh_proj", "model.layers.3.self_attn.o_proj", "model.layers.3.mlp.experts.0.up_proj"):
            self.assertEqual(written[name + ".weight"][0], "U8")
            self.assertNotIn(name + ".input_scale", written)
            self.assertEqual(layers[name]["status"], "quantized")
            self.assertIn("no run reaches it", layers[name]["activation"]["notes"][0])
            group = next(g for g in config["config_groups"].values() if name in g["targets"])
            self.assertTrue(group["input_activations"]["dynamic"])
        self.assertIn("model.layers.2.self_attn.o_proj.input_scale", written)
        for name in ("embed_tokens", "shared_head.head", "enorm"):
            self.assertEqual(written[f"model.layers.3.{name}.weight"][0], "BF16")
        self.assertIn("model.layers.3.shared_head.head", config["ignore"])
        # Nothing of it runs.
        alone, _, _ = self.quantize(MODELS / "random-deepseek-v3-fp8", *self.data)
        self.assertEqual(report["network"], alone["network"])

        # A calibration file says the same without data.
        quantized = (self.folder / "scales.yaml")
        shutil.copy(self.out / "calibration.yaml", quantized)
        _, again, same = self.quantize(model, "--calibration", quantized, "--set", "beside=true")
        self.assertEqual((again, same), (config, written))

        _, config, written = self.quantize(model, *self.data, "--set", "beside=true", "--keep", r"layers\.3\.")
        self.assertEqual(written["model.layers.3.self_attn.o_proj.weight"][0], "BF16")
        self.assertIn("model.layers.3.self_attn.o_proj", config["ignore"])
        self.assertEqual(len(config["config_groups"]), 1)

    def test_fused_experts(self):
        def fuse(tensors):
            fused = {}
            for name, tensor in tensors.items():
                if ".mlp.experts." not in name:
                    fused[name] = tensor
                    continue
                prefix, rest = name.split(".experts.")
                expert, part, _ = rest.split(".")
                key = f"{prefix}.experts." + ("down_proj" if part == "down_proj" else "gate_up_proj")
                fused.setdefault(key, {})[int(expert), part] = tensor
            for key, parts in fused.items():
                if not isinstance(parts, dict):
                    continue
                chosen = [parts[k] for k in sorted(parts)]  # gate_proj stands before up_proj
                experts = len({e for e, _ in parts})
                rows, columns = chosen[0][1]
                shape = [experts, rows * len(parts) // experts, columns]
                fused[key] = (chosen[0][0], shape, b"".join(t[2] for t in chosen))
            return fused

        model = self.changed("random-qwen3-moe", fuse)
        plain, _, separate = self.quantize(MODELS / "random-qwen3-moe", *self.data, "--set", "experts.min_rows=0")
        report, _, written = self.quantize(model, *self.data)
        before, after = plain["network"]["perplexity"], report["network"]["perplexity"]
        self.assertAlmostEqual(before["original"] / after["original"], 1, delta=1e-6)
        # One scale for the input of all experts: the largest of theirs.
        layers = {l["name"]: l for l in report["layers"]}
        for fused, part in (("gate_up_proj", "up_proj"), ("down_proj", "down_proj")):
            prefix = "model.layers.0.mlp.experts."
            name = prefix + fused
            each = [floats(t)[0] for n, t in separate.items() if n.startswith(prefix) and n.endswith(part + ".input_scale")]
            self.assertAlmostEqual(floats(written[name + "_input_scale"])[0] / max(each), 1, delta=1e-6)
            experts, rows, _ = written[name][1]
            self.assertEqual(written[name + "_scale"][1], [experts, rows, 1])
            # The codes are those of the separate experts.
            e = experts - 1
            size = len(written[name][2]) // experts
            self.assertEqual(written[name][2][e * size : (e + 1) * size][-len(separate[f"{prefix}{e}.{part}.weight"][2]) :],
                             separate[f"{prefix}{e}.{part}.weight"][2])
            self.assertGreater(layers[name]["output"]["sqnr_db"], 20)
            self.assertGreater(layers[name]["accumulated"]["sqnr_db"], 10)
            self.assertGreater(layers[name]["activation"]["sqnr_db"], 20)
        self.assertAlmostEqual(report["network"]["outputs"][0]["sqnr_db"], plain["network"]["outputs"][0]["sqnr_db"], delta=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
