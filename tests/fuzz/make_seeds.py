"""Writes the seed corpus anew: python3 make_seeds.py BIN, where BIN holds the programs.

Small files of every kind that the programs read, some of which they write themselves. The corpus is kept with the
sources, so this is needed only to add to it.
"""

import gzip
import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = HERE / "seeds"
MODELS = HERE.parent / "data" / "models"
TYPES = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I64": 8}


def put(target, name, content):
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def files(named):
    """Several files, {name: content}, as one input (tests/fuzz/mutate.h)."""
    parts = []
    for name, content in named.items():
        content = content if isinstance(content, bytes) else content.encode()
        parts.append(b"--- " + name.encode() + b"\n" + content + b"\n")
    return b"".join(parts)


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def header(tensors, metadata=None):
    """A safetensors header of (name, type, shape), one behind the other."""
    entries = {"__metadata__": metadata} if metadata else {}
    at = 0
    for name, dtype, shape in tensors:
        size = TYPES[dtype]
        for d in shape:
            size *= d
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return compact(entries)


def npy(array, version=(1, 0)):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), version=version)
    return out.getvalue()


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A protobuf field: an int, a float, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value if isinstance(value, bytes) else value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def decoder(model_type, hidden=8, heads=2, vocabulary=16, experts=0, **more):
    """config.json and tensors of a decoder of one block."""
    config = {
        "model_type": model_type, "hidden_size": hidden, "intermediate_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": hidden // heads,
        "vocab_size": vocabulary, "rms_norm_eps": 1e-6, "hidden_act": "silu", "torch_dtype": "bfloat16",
        "rope_theta": 10000.0, **more,
    }
    tensors = [("model.embed_tokens.weight", [vocabulary, hidden]), ("lm_head.weight", [vocabulary, hidden]),
               ("model.norm.weight", [hidden])]
    block = "model.layers.0."
    for norm in ("input_layernorm", "post_attention_layernorm"):
        tensors.append((block + norm + ".weight", [hidden]))
    for name in "qkvo":
        tensors.append((f"{block}self_attn.{name}_proj.weight", [hidden, hidden]))
    if model_type.startswith("qwen3"):
        tensors += [(f"{block}self_attn.{name}_norm.weight", [hidden // heads]) for name in "qk"]
    if model_type == "qwen2":
        tensors += [(f"{block}self_attn.{name}_proj.bias", [hidden]) for name in "qkv"]
    mlps = ["mlp."] if not experts else [f"mlp.experts.{e}." for e in range(experts)]
    for mlp in mlps:
        tensors += [(block + mlp + name + "_proj.weight", [16, hidden]) for name in ("gate", "up")]
        tensors.append((block + mlp + "down_proj.weight", [hidden, 16]))
    if experts:
        tensors.append((block + "mlp.gate.weight", [experts, hidden]))
    return config, tensors


def with_type(tensors, dtype="BF16"):
    return [(name, dtype, shape) for name, shape in tensors]


def safetensors_seeds():
    put("safetensors", "types", header([(t, t, [2, 3]) for t in TYPES if t != "F8_E8M0"], {"format": "pt"}))
    put("safetensors", "unknown", header([("t", "F8_E8M0", [2, 3])]))
    put("safetensors", "scalar_and_empty", header([("a", "F32", []), ("b", "BF16", [0, 4]), ("c", "F32", [1])]))
    put("safetensors", "fp8", header([("l.weight", "F8_E4M3", [4, 32]), ("l.weight_scale", "F32", [4, 1])]))
    put("safetensors", "fp8_blocks",
        header([("l.weight", "F8_E4M3", [130, 132]), ("l.weight_scale_inv", "F32", [2, 2])]))
    put("safetensors", "mx", header([("l.weight", "F8_E4M3", [4, 64]), ("l.weight_scale", "U8", [4, 2])]))
    put("safetensors", "packed", header([("l.weight_packed", "U8", [4, 32]), ("l.weight_scale", "U8", [4, 2])]))
    put("safetensors", "int8", header([("l.weight", "I8", [4, 8]), ("l.weight_scale", "F32", [4, 1])]))
    text = header([("x", "F32", [2])]).encode()
    put("safetensors", "raw", b"raw\n" + struct.pack("<Q", len(text)) + text + bytes(8))


def checkpoint_seeds():
    for kind in ("llama", "qwen2", "qwen3", "mistral"):
        config, tensors = decoder(kind)
        put("checkpoint", kind, files({"config.json": compact(config), "model.safetensors": header(with_type(tensors))}))
    config, tensors = decoder("qwen3_moe", experts=2, num_experts=2, num_experts_per_tok=1,
                              moe_intermediate_size=16, decoder_sparse_step=1, norm_topk_prob=True)
    put("checkpoint", "qwen3_moe", files({"config.json": compact(config), "model.safetensors": header(with_type(tensors))}))
    config, tensors = decoder("llama", tie_word_embeddings=True)
    first, second = with_type(tensors[:6]), with_type(tensors[6:], "F32")
    index = {"metadata": {"total_size": 1}, "weight_map": {
        **{t[0]: "model-00001-of-00002.safetensors" for t in first},
        **{t[0]: "model-00002-of-00002.safetensors" for t in second}}}
    put("checkpoint", "sharded", files({
        "config.json": compact(config), "model.safetensors.index.json": compact(index),
        "model-00001-of-00002.safetensors": header(first), "model-00002-of-00002.safetensors": header(second),
        "notes.txt": "beside"}))
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [4, 8], "fmt": "e4m3"}
    fp8 = []
    for name, dtype, shape in with_type(tensors):
        if "_proj.weight" in name:
            fp8 += [(name, "F8_E4M3", shape),
                    (name + "_scale_inv", "F32", [-(-shape[0] // 4), -(-shape[1] // 8)])]
        else:
            fp8.append((name, dtype, shape))
    put("checkpoint", "fp8", files({"config.json": compact(config), "model.safetensors": header(fp8)}))
    part = {"schema": "hif8.part/2", "part": 1, "parts": 2, "source": "0" * 32, "whole": "",
            "files": ["model.safetensors"], "tensors": {"a": "0" * 32}}
    config, tensors = decoder("llama")
    put("checkpoint", "part", files({"hif8-part.json": compact(part), "config.json": compact(config),
                                    "a.safetensors": header([("a.weight", "F32", [2, 2])])}))
    # What the program writes: codes with compressed-tensors' description.
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "float-quantized", "number_format": "hif8",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
            "num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False},
            "input_activations": None}}, "ignore": ["lm_head"]}
    codes = []
    for name, dtype, shape in with_type(tensors):
        if "_proj.weight" in name:
            codes += [(name, "U8", shape), (name + "_scale", "F32", [shape[0], 1])]
        else:
            codes.append((name, dtype, shape))
    put("checkpoint", "quantized", files({"config.json": compact(config), "model.safetensors": header(codes)}))


def config_seeds():
    for folder in sorted(MODELS.iterdir()):
        put("model_config", folder.name, compact(json.loads((folder / "config.json").read_text())))
    config, _ = decoder("llama", rope_scaling={"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1,
                                               "original_max_position_embeddings": 64, "mscale": 1.0})
    put("model_config", "yarn", compact(config))
    config, _ = decoder("qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=0,
                        layer_types=["sliding_attention"], attention_bias=True)
    put("model_config", "window", compact(config))


def tokenizer(**more):
    vocab = ["a", "b", "c", "ab", "bc", "abc", "▁", "▁a", "<unk>", "aa", "1", "2", "12", "é", "Ġ", "<0x41>", "<s>"]
    document = {
        "added_tokens": [{"id": 16, "content": "<s>", "special": True, "lstrip": False, "rstrip": True,
                          "normalized": False, "single_word": False}],
        "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": False, "fuse_unk": False,
                  "ignore_merges": False, "vocab": {t: i for i, t in enumerate(vocab)},
                  "merges": ["b c", "a b", "ab c", "▁ a", "a a", "1 2"]},
    }
    model = more.pop("model", {})
    document.update(more)
    document["model"].update(model)
    return compact(document)


def tokenizer_seeds():
    text = "abc <s> aa12 éa\n\tab's  bc Aa"
    pattern = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"
    variants = {
        "plain": {},
        "metaspace": {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
                                        "split": True}},
        "prepend": {"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "model": {"byte_fallback": True, "fuse_unk": True}},
        "byte_level": {"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
            "model": {"ignore_merges": True, "merges": [["a", "b"], ["b", "c"]]}},
        "digits": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": True,
                                                            "use_regex": True}]}},
        "template": {"post_processor": {"type": "TemplateProcessing",
                                        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                   {"Sequence": {"id": "A", "type_id": 0}}],
                                        "pair": [],
                                        "special_tokens": {"<s>": {"id": "<s>", "ids": [16], "tokens": ["<s>"]}}}},
    }
    for name, parts in variants.items():
        put("tokenizer", name, files({"tokenizer.json": tokenizer(**parts), "text.txt": text}))


def sentencepiece_seeds():
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁", -1.0, 1), ("a", -2.0, 1), ("b", -3.0, 1),
              ("ab", -0.5, 1), ("▁ab", -0.25, 1)]
    pieces += [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    model = b"".join(field(1, field(1, text) + field(2, score) + field(3, kind)) for text, score, kind in pieces)
    bpe = model + field(2, field(3, 2) + field(35, 1))
    bpe += field(3, field(1, "identity") + field(3, 1) + field(4, 0) + field(5, 1))
    text = "ab ba <x> é  a"
    put("sentencepiece", "bpe", files({"tokenizer.model": bpe, "text.txt": text}))
    unigram = model + field(2, field(3, 1) + field(35, 1)) + field(3, field(1, "identity"))
    config = {"add_bos_token": True, "add_eos_token": True, "added_tokens_decoder": {
        "264": {"content": "<x>", "special": True, "lstrip": False, "rstrip": False, "normalized": False,
                "single_word": False}}}
    put("sentencepiece", "unigram", files({"tokenizer.model": unigram, "tokenizer_config.json": compact(config),
                                          "text.txt": text}))


def text_data_seeds():
    put("text_data", "text", files({"d.txt": "abcab\nabc é <unk>"}))
    put("text_data", "lines", files({"d.jsonl": '{"text": "abcab"}\n\n{"text": "b c", "other": [1]}'}))
    put("text_data", "ids", files({"d.jsonl": '{"input_ids": [0, 1, 2, 3, 4, 5]}\n{"input_ids": [5, 5], "text": "a"}'}))
    lines = b'{"input_ids": [0, 1]}\n{"input_ids": [5, 5]}\n'
    put("text_data", "list", files({"d.json": '[{"input_ids": [0, 1, 2]}, {"input_ids": [5, 5]}]'}))
    put("text_data", "gzip", files({"d.jsonl.gz": gzip.compress(lines, mtime=0)}))
    raw_block = b"\x28\xb5\x2f\xfd\x20" + bytes([len(lines)]) + struct.pack("<I", len(lines) << 3 | 1)[:3] + lines
    put("text_data", "zstd", files({"d.jsonl.zst": raw_block}))
    for dtype in ("i4", "u8", "i8", "u2", "u1"):
        put("text_data", "array_" + dtype, files({"d.npy": npy(np.arange(12, dtype=dtype).reshape(2, 6) % 6)}))


def tensor_proto(array, kind, name, raw=True):
    out = b"".join(field(1, d) for d in array.shape) + field(2, kind)
    if raw:
        return out + field(8, name) + field(9, array.tobytes())
    if kind == 1:
        return out + field(4, array.tobytes()) + field(8, name)
    packed = b"".join(varint(int(v)) for v in array.ravel())
    return out + field(7 if kind == 7 else 5, packed) + field(8, name)


def dataset_seeds():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 4)).astype("f4")
    ids = np.arange(6, dtype="i8").reshape(2, 3)
    one = "x F32 batch 3 4"
    two = "x F32 batch 3 4\nids I64 batch 3"
    put("dataset", "npy", files({"inputs": one, "x.npy": npy(x)}))
    put("dataset", "npy_fixed", files({"inputs": "x F16 1 3 4", "a1.npy": npy(x), "a2.npy": npy(x.astype("f8"))}))
    put("dataset", "npy_group", files({"inputs": two, "x.npy": npy(x), "ids.npy": npy(ids.astype("i4"))}))
    put("dataset", "npz", files({"inputs": two, "a.npz/x.npy": npy(x), "a.npz/ids.npy": npy(ids)}))
    put("dataset", "npz_plain", files({"inputs": "x BF16 seq 4", "a.npz/arr_0.npy": npy(x[0].astype("f2"))}))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy(np.zeros((9, 3, 4), "f4")))
        archive.writestr("readme", "no array")
    put("dataset", "npz_deflated", files({"inputs": one, "a.npz": out.getvalue()}))
    text = header([("x", "F32", [2, 3, 4]), ("ids", "I64", [2, 3])]).encode()
    put("dataset", "safetensors", files({"inputs": two, "a.safetensors": struct.pack("<Q", len(text)) + text + bytes(144)}))
    for raw in (False, True):
        put("dataset", "test_data" + "_raw" * raw, files({
            "inputs": two, "test_data_set_0/input_0.pb": tensor_proto(x, 1, "x", raw),
            "test_data_set_0/input_1.pb": tensor_proto(ids, 7, "ids", raw)}))
    put("dataset", "test_data_int", files({"inputs": "x I32 ?", "input_0.pb": tensor_proto(ids.astype("i4"), 6, "", False)}))
    put("dataset", "image", files({"inputs": "x F32 1 3 height width", "a.png": image("PNG", "RGB"), "b.jpg": image("JPEG", "L")}))


def image(form, mode, size=(9, 7), **more):
    pixels = np.random.default_rng(2).integers(0, 255, (size[1], size[0], 4), "u1")
    out = io.BytesIO()
    Image.fromarray(pixels, "RGBA").convert(mode).save(out, form, **more)
    return out.getvalue()


def image_seeds():
    for mode in ("RGB", "L", "P", "RGBA", "1"):
        put("image", "png_" + mode.lower(), image("PNG", mode))
        if mode != "RGBA":
            put("image", "bmp_" + mode.lower(), image("BMP", mode))
    for name, more in {"jpg": {}, "jpg_progressive": {"progressive": True}, "jpg_gray": {}}.items():
        put("image", name, image("JPEG", "L" if "gray" in name else "RGB", (20, 17), quality=50, **more))


def npy_seeds():
    for name, array in {"f4": np.zeros((2, 3), "f4"), "f2_1d": np.arange(5, dtype="f2"), "scalar": np.float64(1),
                        "i8": np.arange(4), "bool": np.array([True, False]),
                        "fortran": np.asfortranarray(np.zeros((1, 3))), "empty": np.zeros((0, 2), "i2")}.items():
        put("npy", name, npy(array))
    put("npy", "v2", npy(np.zeros(2, "u1"), (2, 0)))
    put("npy", "v3", npy(np.zeros(2, "u4"), (3, 0)))


def yaml_and_reports(programs):
    """What the programs write for a small network."""
    for path in sorted((HERE.parents[1] / "samples" / "recipes").glob("*.yaml")):
        put("recipe", path.stem, path.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "net.onnx").write_bytes(network())
        common = [folder / "net.onnx", "--data", "random:8"]
        run(programs, "hif8-calibrate", *common, "-o", folder / "out", "--stats-out", folder / "s")
        run(programs, "hif8-calibrate", *common, "-o", folder / "kept", "--keep", "second", "--set",
            "weights.granularity=tensor", "--compare", "hif8,fp8_e4m3:mse")
        run(programs, "hif8-calibrate", *common, "-o", folder / "study", "--delayed-study")
        for name in ("out", "kept", "study"):
            put("calibration", name, (folder / name / "calibration.yaml").read_bytes())
            put("recipe", "resolved_" + name, (folder / name / "recipe.yaml").read_bytes())
        reports = {name: compact(json.loads((folder / name / "report.json").read_text()))
                   for name in ("out", "kept", "study")}
        for name, text in reports.items():
            put("report", name, files({"a.json": text}))
        put("report", "two", files({"a.json": reports["out"], "b.json": reports["kept"]}))
        whole = (folder / "s").read_bytes()
        put("stats", "whole", whole)
        put("stats", "content", whole[20:-32])


def network():
    """An ONNX model of two small matrix products."""
    rng = np.random.default_rng(3)
    nodes, weights = b"", b""
    for name, source, target, shape in (("first", "x", "h", (4, 6)), ("second", "h", "y", (6, 2))):
        nodes += field(1, field(1, source) + field(1, name + ".w") + field(2, target) + field(3, name) +
                       field(4, "MatMul"))
        weights += field(5, tensor_proto(rng.standard_normal(shape).astype("f4"), 1, name + ".w"))

    def value(name, width):
        shape = field(1, field(2, "batch")) + field(1, field(1, width))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

    graph = nodes + field(2, "net") + weights + field(11, value("x", 4)) + field(12, value("y", 2))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def run(programs, name, *arguments):
    done = subprocess.run([programs / name, *arguments], check=True, capture_output=True)
    return done.stdout


def main():
    safetensors_seeds()
    checkpoint_seeds()
    config_seeds()
    tokenizer_seeds()
    sentencepiece_seeds()
    text_data_seeds()
    dataset_seeds()
    image_seeds()
    npy_seeds()
    yaml_and_reports(pathlib.Path(sys.argv[1]))
    sizes = [path.stat().st_size for path in SEEDS.rglob("*") if path.is_file()]
    print(f"{len(sizes)} seeds, {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
