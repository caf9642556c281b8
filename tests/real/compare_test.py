"""Formats side by side on tiny-qwen3, against float64 arithmetic: python3 compare_test.py BIN_DIR CHECKPOINT.

Weights, inputs and outputs of layers under every format, computed here with numpy from the checkpoint's bytes and the
formats' definitions, must agree with the report to 0.02 dB. Comparing six formats may take three times as long as one.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

BIN, MODEL = map(pathlib.Path, sys.argv[1:3])
SAMPLES, LENGTH = 4, 64
FORMATS = ["hif8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3_block", "mxfp8", "mxfp4", "int8"]
TOLERANCE = 0.02  # dB


def round_float(x, bits, least, most):
    """To `bits` significant bits, not below the quantum 2^least, ties to even, clipped."""
    exponent = np.frexp(x)[1]  # |x| in [2^(exponent - 1), 2^exponent)
    quantum = np.ldexp(1.0, np.maximum(exponent - bits, least))
    return np.clip(np.rint(x / quantum) * quantum, -most, most)


def round_hif8(x):
    """Ties away from zero; 4, 3, 2, 1 significant bits by the exponent."""
    a = np.minimum(np.abs(x), 2.0**15)
    e = np.maximum(np.frexp(np.maximum(a, 2.0**-60))[1] - 1, -22)
    m = 3 - (np.abs(e) > 3).astype(int) - (np.abs(e) > 7) - (np.abs(e) > 15)
    step = np.ldexp(1.0, e - m)
    y = np.floor(a / step + 0.5) * step
    return np.sign(x) * np.where(a < 2.0**-23, 0, np.minimum(y, 2.0**15))


ROUND = {
    "hif8": (round_hif8, 16),
    "fp8_e4m3": (lambda x: round_float(x, 4, -9, 448), 448),
    "fp8_e5m2": (lambda x: round_float(x, 3, -16, 57344), 57344),
    "mxfp4": (lambda x: round_float(x, 2, -1, 6), 6),
    "int8": (lambda x: np.clip(np.rint(x), -127, 127), 127),
}
ROUND["fp8_e4m3_block"] = ROUND["mxfp8"] = ROUND["fp8_e4m3"]


def tiles(x, rows, inputs):
    """amax of each tile, spread over its elements."""
    amax = np.abs(x)
    for axis, size in ((0, rows), (1, inputs)):
        pieces = [
            np.repeat(part.max(axis=axis, keepdims=True), part.shape[axis], axis=axis)
            for part in np.split(amax, range(size, x.shape[axis], size), axis=axis)
        ]
        amax = np.concatenate(pieces, axis=axis)
    return amax


def divided(x, scale):
    """The quotient is one of fp32 by definition: it decides ties, of which bf16 weights have many."""
    return (x.astype(np.float32) / scale.astype(np.float32)).astype(np.float64)


def quantized(x, name, is_weight):
    rounding, target = ROUND[name]
    if name in ("mxfp8", "mxfp4"):
        emax = {"mxfp8": 8, "mxfp4": 2}[name]
        amax = tiles(x, 1, 32)
        scale = np.exp2(np.clip(np.floor(np.log2(np.maximum(amax, 2.0**-149))) - emax, -127, 127))
        return scale * rounding(divided(x, scale))
    if name == "fp8_e4m3_block":
        amax = tiles(x, 128 if is_weight else 1, 128)
    elif is_weight:
        amax = np.abs(x).max(axis=1, keepdims=True)
    else:
        amax = np.abs(x).max()
    scale = np.where(amax > 0, amax.astype(np.float32) / np.float32(target), 1.0).astype(np.float64)
    return scale * rounding(divided(x, scale))


def sqnr(x, y):
    return 10 * np.log10((x**2).sum() / ((x - y) ** 2).sum())


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


def calibrate(data, out, formats):
    command = [BIN / "hif8-calibrate", MODEL, "--data", data, "-o", out, "--force", "-q", "--compare", formats]
    start = time.monotonic()
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads((out / "report.json").read_text(encoding="utf-8")), time.monotonic() - start


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        ids = np.load(MODEL / "calibration_ids.npy")[:SAMPLES, :LENGTH]
        np.save(work / "ids.npy", ids)
        one = min(calibrate(work / "ids.npy", work / "one", "hif8")[1] for _ in range(3))
        runs = [calibrate(work / "ids.npy", work / "all", ",".join(FORMATS[1:])) for _ in range(3)]
        six = min(seconds for _, seconds in runs)
        print(f"hif8 alone {one:.2f} s, six formats beside it {six:.2f} s: {six / one:.2f} times")
        assert six <= 3 * one, "comparing six formats takes more than three times as long as one"
        rows = {(r["layer"], r["operand"], r["format"]): r["sqnr_db"] for r in runs[0][0]["comparisons"]}

        network = Network()
        for sample in ids:
            network.run(sample)
        assert len(rows) == 3 * len(FORMATS) * len(network.inputs), len(rows)
        worst = dict.fromkeys(("weight", "activation", "output"), 0.0)
        for name, parts in network.inputs.items():
            x = np.concatenate(parts)
            w = network.tensors[name + ".weight"]
            for fmt in FORMATS:
                xq, wq = quantized(x, fmt, False), quantized(w, fmt, True)
                expected = {"weight": sqnr(w, wq), "activation": sqnr(x, xq), "output": sqnr(x @ w.T, xq @ wq.T)}
                for operand, value in expected.items():
                    difference = abs(rows[name, operand, fmt] - value)
                    worst[operand] = max(worst[operand], difference)
                    assert difference <= TOLERANCE, (name, operand, fmt, rows[name, operand, fmt], value)
        print(f"{len(rows)} comparisons agree; largest differences in dB: {worst}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
