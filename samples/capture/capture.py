"""Records what goes into the layers of a PyTorch model, for hif8-calibrate --activations.

For models that hif8-calibrate cannot run itself: run yours as ever, with its own data, inside a Capture.

    from capture import Capture

    with Capture(model, "activations") as capture:
        for batch in calibration_data:
            model(**batch)
            capture.next_sample()

    hif8-calibrate MODEL_FOLDER --activations activations -o OUT

The folder gets one .safetensors file per sample. A tensor's name is the module's (the checkpoint's name of its weight
without ".weight"), its values are the module's input: of a linear layer as rows of [in_features], of a convolution as
[batch, channels, ...]. A module that runs several times in a sample (the steps of a denoising loop, say) has all of its
rows there; a convolution that reads another size then keeps what it read most often. What a cache of keys and values
holds is recorded by next_sample(cache). Only PyTorch is needed.
"""

import ctypes
import json
import pathlib
import re
import sys

import torch

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64"}


def tensor_bytes(tensor):
    """The bytes of a tensor in row-major order, whatever its type (numpy knows no bfloat16)."""
    tensor = tensor.detach().cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def save_safetensors(path, tensors):
    """Writes {name: floating-point tensor}: 8 bytes of header length, a JSON header, the data."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = pathlib.Path(f"{path}.partial")
    with open(partial, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor_bytes(tensor))
    partial.rename(path)


class Capture:
    """Hooks every linear layer and convolution (embeddings aside) whose name matches `only`.

    `max_rows` limits what is kept of a module's input in one sample (evenly spaced rows); 0 keeps everything.
    """

    def __init__(self, model, folder, only="", max_rows=0):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.max_rows = max_rows
        self.sample = 0
        self.inputs = {}
        self.never_called = set()
        self.hooks = []
        for name, module in model.named_modules():
            weight = getattr(module, "weight", None)
            is_layer = isinstance(weight, torch.Tensor) and 2 <= weight.dim() <= 5
            if is_layer and not isinstance(module, torch.nn.Embedding) and re.search(only, name):
                self.never_called.add(name)
                hook = self._hook(name, weight.shape[1]) if weight.dim() == 2 else self._hook_convolution(name)
                self.hooks.append(module.register_forward_pre_hook(hook))
        if not self.hooks:
            raise ValueError(f"no layer's name matches '{only}'")

    def _hook(self, name, features):
        def record(_module, arguments):
            x = arguments[0].detach()
            if x.shape[-1] == features:
                self.inputs.setdefault(name, []).append(x.reshape(-1, features).to("cpu", copy=True))

        return record

    def _hook_convolution(self, name):
        def record(_module, arguments):
            self.inputs.setdefault(name, []).append(arguments[0].detach().to("cpu", copy=True))

        return record

    def _rows(self, parts):
        if parts[0].dim() > 2:
            shapes = [part.shape[1:] for part in parts]
            return torch.cat([part for part in parts if part.shape[1:] == max(shapes, key=shapes.count)])
        rows = torch.cat(parts)
        if self.max_rows and len(rows) > self.max_rows:
            rows = rows[torch.arange(self.max_rows) * len(rows) // self.max_rows]
        return rows

    def next_sample(self, cache=None, attention="model.layers.{}.self_attn"):
        """Writes what has been recorded since the last call; nothing recorded, nothing written.

        `cache`: keys and values of each block as (key, value) pairs or a Cache of transformers, tensors [batch, heads,
        positions, head_dim]; `attention` is the name of a block's attention module.
        """
        if not self.inputs:
            return
        pairs = [(layer.keys, layer.values) for layer in cache.layers] if hasattr(cache, "layers") else cache or []
        for block, (key, value) in enumerate(pairs):
            for kind, tensor in (("k", key), ("v", value)):
                rows = tensor.detach().transpose(1, 2).reshape(-1, tensor.shape[1] * tensor.shape[3])
                self.inputs[f"{attention.format(block)}.{kind}"] = [rows.to("cpu", copy=True)]
        self.never_called -= self.inputs.keys()
        tensors = {name: self._rows(parts) for name, parts in self.inputs.items()}
        save_safetensors(self.folder / f"{self.sample:06d}.safetensors", tensors)
        self.sample += 1
        self.inputs = {}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for hook in self.hooks:
            hook.remove()
        if kind is None:
            self.next_sample()
            if self.never_called:  # torch.nn.MultiheadAttention, for one, never calls its out_proj
                print("never called, nothing captured:", ", ".join(sorted(self.never_called)), file=sys.stderr)
