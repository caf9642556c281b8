"""Tests samples/capture on a small module: python3 capture_test.py ROOT [BIN].

The files are read by a reader of this test's own, and the expected inputs are computed without hooks. With BIN (a folder
with hif8-calibrate) the captured activations are calibrated and the scales compared.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types

try:
    import torch
except ImportError:
    print("SKIPPED: no python3-torch on this machine")
    sys.exit(77)

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "samples" / "capture"))
sys.dont_write_bytecode = True
import record_reference  # noqa: E402
from capture import Capture, save_safetensors  # noqa: E402

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64,
         "I64": torch.int64}


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    assert size % 8 == 0
    tensors, end = {}, 0
    for name, entry in json.loads(data[8 : 8 + size]).items():
        begin, stop = entry["data_offsets"]
        assert begin == end, "gap"
        end = stop
        raw = bytearray(data[8 + size + begin : 8 + size + stop])
        tensors[name] = torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    assert 8 + size + end == len(data)
    return tensors


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 96)
        self.down = torch.nn.Linear(96, 64)
        self.unused = torch.nn.Linear(64, 64)
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 64)
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, ids, steps=1):
        x = self.embed(ids)
        for _ in range(steps):
            for block in self.blocks:
                x = block(x)
        return x


def expected_inputs(model, ids, steps):
    """The inputs by name, from the definition."""
    inputs = {}
    x = model.embed.weight[ids]
    for _ in range(steps):
        for i, block in enumerate(model.blocks):
            normal = torch.nn.functional.layer_norm(x, (64,), block.norm.weight, block.norm.bias)
            wide = torch.nn.functional.gelu(normal @ block.up.weight.T + block.up.bias)
            for name, value in (("up", normal), ("down", wide)):
                inputs.setdefault(f"blocks.{i}.{name}", []).append(value.reshape(-1, value.shape[-1]))
            x = x + wide @ block.down.weight.T + block.down.bias
    return {name: torch.cat(parts) for name, parts in inputs.items()}


def check_files(model, folder):
    samples = [(torch.tensor([[1, 2, 3]]), 1), (torch.tensor([[4, 5], [6, 7]]), 1), (torch.tensor([[8]]), 3)]
    with torch.no_grad(), Capture(model, folder) as capture:
        for ids, steps in samples:
            model(ids, steps)
            capture.next_sample()
        assert capture.never_called == {"blocks.0.unused", "blocks.1.unused"}
    model(samples[0][0])  # the hooks are gone
    files = sorted(folder.iterdir())
    assert [f.name for f in files] == [f"{i:06d}.safetensors" for i in range(3)], files
    amax = {}
    for file, (ids, steps) in zip(files, samples):
        read, expected = read_safetensors(file), expected_inputs(model, ids, steps)
        assert read.keys() == expected.keys(), read.keys()
        for name, value in expected.items():
            torch.testing.assert_close(read[name], value.detach(), rtol=1e-5, atol=1e-6)
            amax[name] = max(amax.get(name, 0), read[name].abs().max().item())
    return amax


def check_options(model, folder):
    half = Small().to(torch.bfloat16)
    with torch.no_grad(), Capture(half, folder, only="down", max_rows=5) as capture:
        half(torch.arange(10).reshape(1, 10))
    assert capture.sample == 1  # written on leaving
    read = read_safetensors(folder / "000000.safetensors")
    assert read.keys() == {"blocks.0.down", "blocks.1.down"}
    assert all(t.dtype == torch.bfloat16 and t.shape == (5, 96) for t in read.values())
    every = folder / "every"
    with torch.no_grad(), Capture(half, every, only="0.down"):
        half(torch.arange(10).reshape(1, 10))
    rows = read_safetensors(every / "000000.safetensors")["blocks.0.down"][::2]
    assert torch.equal(rows, read["blocks.0.down"])  # evenly spaced
    try:
        Capture(model, folder / "none", only="nothing")
        raise AssertionError("accepted a pattern without match")
    except ValueError as error:
        assert "nothing" in str(error)


def check_calibration(model, folder, amax, program):
    """Scales of the quantized model are amax / 16 in fp32."""
    save_safetensors(folder / "model.safetensors", {k: v.detach() for k, v in model.state_dict().items()})
    command = [program, folder / "model.safetensors", "--activations", folder / "activations", "-o", folder / "out"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    written = {}
    for file in (folder / "out").glob("*.safetensors"):
        data = file.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name.endswith(".input_scale"):
                assert entry["dtype"] == "F32", entry
                begin, end = entry["data_offsets"]
                value = torch.frombuffer(bytearray(data[8 + size + begin : 8 + size + end]), dtype=torch.float32)
                written[name.removesuffix(".input_scale")] = value.item()
    assert written.keys() == amax.keys(), written.keys()
    for name, scale in written.items():
        assert math.isclose(scale, amax[name] / 16, rel_tol=1e-6), (name, scale, amax[name])


class Decoder(torch.nn.Module):
    """What a language model of transformers looks like from outside."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 4)
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()) for _ in range(2))
        self.head = torch.nn.Linear(4, 10)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return types.SimpleNamespace(logits=self.head(x))


def check_reference(folder):
    model, ids = Decoder(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    record_reference.record(model, ids, folder / "reference.safetensors")
    tensors = read_safetensors(folder / "reference.safetensors")
    first = model.layers[0](model.embed(ids))
    second = model.layers[1](first)
    expected = {
        "input_ids": ids, "hidden_states.0": first, "hidden_states.1": second, "logits": model.head(second),
        "input_amax.layers.0.0": model.embed(ids).abs().max().reshape(1),
        "input_amax.layers.1.0": first.abs().max().reshape(1), "input_amax.head": second.abs().max().reshape(1),
    }  # fmt: skip
    assert tensors.keys() == expected.keys(), tensors.keys()
    for name, value in expected.items():
        assert torch.equal(tensors[name], value), name


def main():
    torch.manual_seed(1)
    model = Small()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        amax = check_files(model, folder / "activations")
        check_options(model, folder / "options")
        check_reference(folder)
        passed = 3
        program = pathlib.Path(sys.argv[2]) / "hif8-calibrate" if len(sys.argv) > 2 else None
        if program and "--activations" in subprocess.run([program, "--help"], capture_output=True, text=True).stdout:
            check_calibration(model, folder, amax, program)
            passed += 1
        else:
            print("SKIPPED: calibration with the captured activations, no hif8-calibrate that has --activations")
    print(f"{passed} passed, 0 failed")


main()
