"""Formats side by side on tiny-qwen3, against float64 arithmetic: compare_test.py ROOT BIN_DIR CHECKPOINT.

Weights, inputs and outputs of layers under every format, computed here with numpy from the checkpoint's bytes and the
formats' definitions, must agree with the report to 0.02 dB. Comparing six formats may take three times as long as one.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
from side_by_side import FORMATS, Check, compare_all, input_as, weight_as

MODEL = pathlib.Path(sys.argv[3])
SAMPLES, LENGTH = 4, 64


def read_checkpoint():
    raw = (MODEL / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "BF16", name
        bits = np.frombuffer(raw[8 + size + begin : 8 + size + end], dtype="<u2").astype(np.uint32) << 16
        tensors[name] = bits.view(np.float32).reshape(entry["shape"]).astype(np.float64)
    return tensors


class Network:
    """Qwen3's forward pass; `inputs` gathers what every Linear reads."""

    def __init__(self):
        self.config = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))
        self.tensors = read_checkpoint()
        self.inputs = {}

    def norm(self, x, name):
        scale = np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / scale * self.tensors[name]

    def linear(self, x, name):
        self.inputs.setdefault(name, []).append(x)
        return x @ self.tensors[name + ".weight"].T

    def rotate(self, x):
        half = x.shape[-1] // 2
        frequencies = self.config["rope_theta"] ** (-np.arange(half) / half)
        angles = np.arange(x.shape[0])[:, None] * frequencies
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def attention(self, x, name):
        heads, groups, width = (
            self.config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
        )
        q = self.linear(x, name + ".q_proj").reshape(-1, heads, width)
        k = self.linear(x, name + ".k_proj").reshape(-1, groups, width)
        v = self.linear(x, name + ".v_proj").reshape(-1, groups, width)
        q = self.rotate(self.norm(q, name + ".q_norm.weight"))
        k = self.rotate(self.norm(k, name + ".k_norm.weight"))
        k, v = (np.repeat(t, heads // groups, axis=1) for t in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(width)
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, v).reshape(len(x), heads * width)
        return self.linear(mixed, name + ".o_proj")

    def run(self, ids):
        x = self.tensors["model.embed_tokens.weight"][ids]
        for i in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{i}"
            x = x + self.attention(self.norm(x, name + ".input_layernorm.weight"), name + ".self_attn")
            normed = self.norm(x, name + ".post_attention_layernorm.weight")
            gate = self.linear(normed, name + ".mlp.gate_proj")
            up = self.linear(normed, name + ".mlp.up_proj")
            x = x + self.linear(gate / (1 + np.exp(-gate)) * up, name + ".mlp.down_proj")


def main():
    ids = np.load(MODEL / "calibration_ids.npy")[:SAMPLES, :LENGTH]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        np.save(work / "ids.npy", ids)
        check = Check(compare_all(MODEL, work / "out", "--data", work / "ids.npy"))
    network = Network()
    for sample in ids:
        network.run(sample)
    for layer, parts in network.inputs.items():
        x, w = np.concatenate(parts), network.tensors[layer + ".weight"]
        for name in FORMATS:
            xq, wq = input_as(name, x), weight_as(name, w)
            check.equal(layer, "weight", name, w, wq)
            check.equal(layer, "activation", name, x, xq)
            check.equal(layer, "output", name, x @ w.T, xq @ wq.T)
    check.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
