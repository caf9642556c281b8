"""A checkpoint whose one layer is larger than --memory-limit: memory_slow_test.py HIF8_CALIBRATE.

64 experts of 2.1 GiB as fp32 are calibrated, written and measured; the program's own memory is looked
at from outside, every 5 ms.
"""

import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from plain_files import write_ids

PROGRAM = sys.argv[1]
HIDDEN, INTERMEDIATE, EXPERTS, BLOCKS, VOCABULARY = 2048, 1408, 64, 2, 1024
CONFIG = {
    "model_type": "qwen3_moe", "vocab_size": VOCABULARY, "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE, "moe_intermediate_size": INTERMEDIATE,
    "num_hidden_layers": BLOCKS, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
    "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu", "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "num_experts": EXPERTS, "num_experts_per_tok": 4, "norm_topk_prob": True,
}


def tensors():
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    for block in range(BLOCKS):
        prefix = f"model.layers.{block}."
        for name, shape in (
            ("input_layernorm", [HIDDEN]), ("self_attn.q_proj", [512, HIDDEN]), ("self_attn.k_proj", [128, HIDDEN]),
            ("self_attn.v_proj", [128, HIDDEN]), ("self_attn.o_proj", [HIDDEN, 512]), ("self_attn.q_norm", [64]),
            ("self_attn.k_norm", [64]), ("post_attention_layernorm", [HIDDEN]), ("mlp.gate", [EXPERTS, HIDDEN]),
        ):
            yield f"{prefix}{name}.weight", shape
        for expert in range(EXPERTS):
            for name in ("gate", "up", "down"):
                shape = [HIDDEN, INTERMEDIATE] if name == "down" else [INTERMEDIATE, HIDDEN]
                yield f"{prefix}mlp.experts.{expert}.{name}_proj.weight", shape
    yield "model.norm.weight", [HIDDEN]


def make(folder):
    header, end, largest = {}, 0, 0
    for name, shape in tensors():
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    # Magnitudes near 2^-6 of any sign and fraction.
    count = 1 << 24
    noise = int.from_bytes(random.Random(5).randbytes(count), "little")
    mask = int.from_bytes(b"\x7f\x80" * (count // 2), "little")
    exponents = int.from_bytes(b"\x00\x3c" * (count // 2), "little")
    piece = ((noise & mask) | exponents).to_bytes(count, "little")
    text = json.dumps(header).encode()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, end, count):
            file.write(piece[: min(count, end - begin)])


def peak_of(arguments):
    """Exit code, messages and largest own memory in MiB."""
    with tempfile.TemporaryFile("w+") as messages:
        with subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=messages) as run:
            peak = 0
            while run.poll() is None:
                status = pathlib.Path(f"/proc/{run.pid}/status").read_text(encoding="utf-8")
                for line in status.splitlines():
                    if line.startswith("RssAnon:"):
                        peak = max(peak, int(line.split()[1]))
                time.sleep(0.005)
        messages.seek(0)
        return run.returncode, messages.read(), peak / 1024


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        if shutil.disk_usage(folder).free < 8 << 30:
            print("SKIPPED: less than 8 GiB free on the disk")
            return
        model = folder / "model"
        model.mkdir()
        make(model)
        ids = folder / "ids.npy"
        numbers = random.Random(2)
        write_ids(ids, [[numbers.randrange(VOCABULARY) for _ in range(256)] for _ in range(8)])
        layer = EXPERTS * 3 * HIDDEN * INTERMEDIATE * 4 / (1 << 20)
        codes = {}
        for limit in (1024, 320):
            out = folder / f"out{limit}"
            code, text, peak = peak_of([model, "--data", ids, "-o", out, "--memory-limit", f"{limit}M", "-q"])
            print(f"one layer {layer:.0f} MiB as fp32, limit {limit} MiB: own memory {peak:.0f} MiB")
            assert code == 0, text
            assert layer > limit > peak, (layer, limit, peak)
            codes[limit] = (out / "model.safetensors").read_bytes()
            shutil.rmtree(out)
        assert codes[1024] == codes[320]
        code, text, _ = peak_of([model, "--data", ids, "-o", folder / "out", "--memory-limit", "100M"])
        assert code == 4 and "an expert" in text and "--memory-limit" in text, (code, text)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
