"""Made-up bf16 checkpoints of any size: python3 made_up.py weights FOLDER GIGABYTES
                                        python3 made_up.py llama FOLDER BLOCKS HIDDEN INTERMEDIATE HEADS VOCABULARY
"""

import json
import pathlib
import struct
import sys

import numpy as np


class Checkpoint:
    """Tensors in shards, of normal values with standard deviation 0.02."""

    def __init__(self, folder, shards):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.shards = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
        self.random = np.random.default_rng(1)
        self.index = {}
        self.size = 0

    def add(self, shard, shapes):
        header, end = {}, 0
        for name, shape in shapes.items():
            size = 2 * int(np.prod(shape))
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
            end += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(self.folder / self.shards[shard], "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for name, shape in shapes.items():
                values = self.random.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
                if len(shape) == 1:
                    values += 1  # a norm
                out.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
        self.index.update({name: self.shards[shard] for name in shapes})
        self.size += end

    def finish(self, config):
        index = {"metadata": {"total_size": self.size}, "weight_map": self.index}
        (self.folder / "model.safetensors.index.json").write_text(json.dumps(index))
        (self.folder / "config.json").write_text(json.dumps(config))


def weights(folder, gigabytes, rows=4096, columns=4096, shards=8):
    """Nothing but square weights, of no known architecture."""
    checkpoint = Checkpoint(folder, shards)
    per_shard = max(1, round(gigabytes * 1e9 / shards / (rows * columns * 2)))
    for shard in range(shards):
        numbers = range(shard * per_shard, (shard + 1) * per_shard)
        checkpoint.add(shard, {f"model.layers.{i}.mlp.up_proj.weight": [rows, columns] for i in numbers})
    checkpoint.finish({"model_type": "made_up", "torch_dtype": "bfloat16"})


def llama(folder, blocks, hidden, intermediate, heads, vocabulary):
    """A network that runs, block by block in a shard of its own."""
    checkpoint = Checkpoint(folder, blocks + 1)
    table = [vocabulary, hidden]
    checkpoint.add(0, {"model.embed_tokens.weight": table, "model.norm.weight": [hidden], "lm_head.weight": table})
    square, wide = [hidden, hidden], [intermediate, hidden]
    for block in range(blocks):
        shapes = {f"self_attn.{name}_proj.weight": square for name in "qkvo"}
        shapes |= {"mlp.gate_proj.weight": wide, "mlp.up_proj.weight": wide, "mlp.down_proj.weight": wide[::-1]}
        shapes |= {"input_layernorm.weight": [hidden], "post_attention_layernorm.weight": [hidden]}
        checkpoint.add(block + 1, {f"model.layers.{block}.{name}": shape for name, shape in shapes.items()})
    checkpoint.finish({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
        "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": blocks,
        "num_attention_heads": heads, "num_key_value_heads": heads, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "max_position_embeddings": 4096, "bos_token_id": 0, "eos_token_id": 0,
    })


def token_ids(file, samples, length, vocabulary):
    np.save(file, np.random.default_rng(2).integers(0, vocabulary, (samples, length), dtype=np.int64))


if __name__ == "__main__":
    {"weights": weights, "llama": llama}[sys.argv[1]](sys.argv[2], *map(
        float if sys.argv[1] == "weights" else int, sys.argv[3:]
    ))
