"""samples/load against hif8-calibrate: load_slow_test.py HIF8_CALIBRATE DATA_DIR SAMPLES [CHECKPOINT].

A network of PyTorch modules with the weights and rounded inputs that samples/load makes of a written checkpoint must have the
perplexity and the SQNR that the program reports of its own run of the quantized network. CHECKPOINT is one more network.
"""

import math
import pathlib
import sys
import unittest

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "cli"), str(pathlib.Path(sys.argv[3]) / "load")]

try:
    import torch
    from hif8_load import Checkpoint
except ImportError as error:
    print(f"not tested: {error}; install the Debian package python3-torch")
    sys.exit(77)
from program_case import CalibrateCase  # noqa: E402

MODELS = [pathlib.Path(sys.argv[2]) / "models/random-qwen2"] + [pathlib.Path(path) for path in sys.argv[4:]]
RECIPES = {
    "static": ["inference"],
    "cast": ["cast"],
    "clip": ["inference", "--set", "activations.clip=true", "--set", "activations.target=15",
             "--activation-scale", "percentile", "--set", "activations.percentile=99"],
    "token": ["inference", "--set", "activations.granularity=token"],
    "fp8": ["inference", "--set", "weights.format=fp8_e4m3", "--set", "activations.format=fp8_e4m3"],
    "blocks": ["inference", "--set", "weights.format=fp8_e4m3_block", "--set", "activations.format=fp8_e4m3_block"],
    "int8": ["inference", "--set", "weights.format=int8", "--set", "activations.format=int8",
             "--set", "activations.granularity=token"],
    "mxfp8": ["inference", "--set", "weights.format=mxfp8", "--set", "activations.format=mxfp8"],
    "mxfp8 in blocks": ["inference", "--set", "weights.format=mxfp8", "--set", "weights.granularity=block",
                        "--set", "activations.format=mxfp8"],
    "nvfp4": ["inference", "--set", "weights.format=nvfp4", "--set", "activations.format=nvfp4"],
    "mxfp4": ["inference", "--set", "weights.format=mxfp4", "--set", "activations.format=mxfp4"],
    "cann": ["cast", "--layout", "cann"],
    "cann blocks": ["cast", "--layout", "cann", "--set", "weights.format=fp8_e4m3_block", "--set", "activations.format=fp8_e4m3_block",
                    "--only", "o_proj"],
    "cann mxfp4": ["cast", "--layout", "cann", "--set", "weights.format=mxfp4", "--set", "activations.format=mxfp4", "--keep", "down_proj"],
    "ascendv1": ["inference", "--layout", "ascendv1", "--set", "weights.format=int8", "--set", "activations.format=int8"],
    "ascendv1 mxfp4": ["cast", "--layout", "ascendv1", "--set", "weights.format=mxfp4", "--set", "activations.format=mxfp4"],
}  # fmt: skip


class Block(torch.nn.Module):
    """Names as in the checkpoint's."""

    def __init__(self, config, bias, norms):
        super().__init__()
        hidden, heads, groups = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
        width = config.get("head_dim") or hidden // heads
        linear = torch.nn.Linear
        self.heads, self.groups, self.width = heads, groups, width
        self.eps, self.theta = config["rms_norm_eps"], config["rope_theta"]
        self.self_attn, self.mlp = torch.nn.Module(), torch.nn.Module()
        for name, out in ("q_proj", heads), ("k_proj", groups), ("v_proj", groups):
            setattr(self.self_attn, name, linear(hidden, out * width, bias=bias))
        self.self_attn.o_proj = linear(heads * width, hidden, bias=False)
        self.mlp.gate_proj, self.mlp.up_proj = (linear(hidden, config["intermediate_size"], bias=False) for _ in range(2))
        self.mlp.down_proj = linear(config["intermediate_size"], hidden, bias=False)
        self.input_layernorm, self.post_attention_layernorm = Norm(hidden, self.eps), Norm(hidden, self.eps)
        if norms:
            self.self_attn.q_norm, self.self_attn.k_norm = Norm(width, self.eps), Norm(width, self.eps)

    def rotated(self, x):
        half = self.width // 2
        angles = torch.arange(x.shape[0]).double()[:, None] * self.theta ** (-torch.arange(half).double() / half)
        cos, sin = angles.cos()[:, None].float(), angles.sin()[:, None].float()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, x):
        part = self.self_attn
        q, k, v = (p(x).reshape(len(x), -1, self.width) for p in (part.q_proj, part.k_proj, part.v_proj))
        if hasattr(part, "q_norm"):
            q, k = part.q_norm(q), part.k_norm(k)
        q, k = self.rotated(q), self.rotated(k)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(self.width)
        scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -math.inf)
        return part.o_proj(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(len(x), -1))

    def forward(self, x):
        x = x + self.attention(self.input_layernorm(x))
        y, mlp = self.post_attention_layernorm(x), self.mlp
        return x + mlp.down_proj(torch.nn.functional.silu(mlp.gate_proj(y)) * mlp.up_proj(y))


class Norm(torch.nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.weight


class Network(torch.nn.Module):
    def __init__(self, checkpoint):
        super().__init__()
        config, weights = checkpoint.config, checkpoint.weights()
        first = "model.layers.0.self_attn."
        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(config["vocab_size"], config["hidden_size"])
        blocks = [Block(config, first + "q_proj.bias" in weights, first + "q_norm.weight" in weights)
                  for _ in range(config["num_hidden_layers"])]  # fmt: skip
        self.model.layers = torch.nn.ModuleList(blocks)
        self.model.norm = Norm(config["hidden_size"], config["rms_norm_eps"])
        self.load_state_dict(weights)
        checkpoint.replace_linears(self)

    def forward(self, ids):
        x = self.model.embed_tokens(torch.tensor(ids))
        for block in self.model.layers:
            x = block(x)
        return self.model.norm(x) @ self.model.embed_tokens.weight.T  # the head is tied in both networks


def samples_of(model):
    """Text that the network knows where it comes with some. A value on a rounding tie falls to either side as the order of a sum
    has it: there are so many tokens that the mean loss does not see it."""
    known = model / "validation_ids.npy"
    if known.exists():
        return np.load(known)[:12, :128].tolist()
    return np.random.default_rng(1).integers(0, 251, (16, 128)).tolist()


def loss(logits, samples):
    each = [torch.nn.functional.cross_entropy(y[:-1], torch.tensor(ids[1:]), reduction="sum") for y, ids in zip(logits, samples)]
    return (sum(each) / sum(len(ids) - 1 for ids in samples)).item()


class LoadTest(CalibrateCase):
    @torch.no_grad()
    def outputs(self, folder, samples, **options):
        network = Network(Checkpoint(folder, **options))
        return [network(ids) for ids in samples]

    def test_the_network_is_the_one_that_was_measured(self):
        for model in MODELS:
            samples = samples_of(model)
            original = self.outputs(model, samples)
            for name, recipe in RECIPES.items():
                with self.subTest(model=model.name, recipe=name):
                    report = self.quantize(model, "--data", self.ids(*samples), "-q", "--recipe", *recipe)["network"]
                    found = self.outputs(self.out, samples, clip_target=15 if name == "clip" else None)
                    self.assertAlmostEqual(loss(original, samples), math.log(report["perplexity"]["original"]), delta=1e-4)
                    self.assertAlmostEqual(loss(found, samples), math.log(report["perplexity"]["quantized"]), delta=1e-3)
                    noise = sum(((a - b).double() ** 2).sum() for a, b in zip(original, found))
                    signal = sum((a.double() ** 2).sum() for a in original)
                    sqnr = 10 * math.log10(signal / noise)
                    self.assertAlmostEqual(sqnr, report["outputs"][0]["sqnr_db"], delta=0.2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
