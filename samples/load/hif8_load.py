"""Reads a quantized checkpoint back into PyTorch: float weights, and Linear modules that round their inputs as the files say.

    from hif8_load import Checkpoint

    checkpoint = Checkpoint("out")               # what hif8-calibrate wrote
    weights = checkpoint.weights()               # {name: float32 tensor}, codes decoded
    model.load_state_dict(weights)               # any model of the original's architecture
    checkpoint.replace_linears(model)            # W8A8: quantized Linear modules round their inputs too

Knows HiF8, FP8 (E4M3, E5M2; per tensor, row or block), INT8, MXFP8, MXFP4 and NVFP4 in every layout. Only PyTorch is needed.
A recipe with `activations.clip` is told by `clip_target`, the recipe's `activations.target`; scales that are found when the
model runs map the largest magnitude of a token to `token_target` (HiF8; others use the largest value that they have).
"""

import json
import pathlib
import re

import torch

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.uint8, "F8_E5M2": torch.uint8,
}  # fmt: skip


def read_safetensors(path):
    """{name: (type in the file, tensor)}; FP8 as the codes' bytes."""
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, body, found = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :]), {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            kind = DTYPES[entry["dtype"]]
            tensor = torch.frombuffer(body, dtype=torch.uint8)[begin:end].clone().view(kind) if end > begin else torch.empty(0, dtype=kind)
            found[name] = entry["dtype"], tensor.reshape(entry["shape"])
    return found


def hif8_table():
    """The value of every code: sign, a prefix code for the width of the exponent, exponent as sign and magnitude, fraction."""
    table = torch.zeros(256)
    for code in range(1, 128):
        if code < 8:
            value = 2.0 ** (code - 23)
        else:
            # First code of a band, bits of the exponent field, bits of the fraction.
            first, width, bits = next(band for band in ((96, 4, 1), (64, 3, 2), (32, 2, 3), (16, 1, 3), (8, 0, 3)) if code >= band[0])
            field = (code - first) >> bits
            magnitude = (1 << width >> 1) + field % max(1, 1 << width >> 1)
            negative = width > 0 and field >= 1 << width >> 1
            value = (1 + code % (1 << bits) / (1 << bits)) * 2.0 ** (-magnitude if negative else magnitude)
        table[code], table[code + 128] = value, -value
    table[0x6F], table[0xEF], table[0x80] = float("inf"), float("-inf"), float("nan")
    return table


def float_table(exponent_bits, fraction_bits, bias, size=256):
    """The values of a small IEEE-like float, without its infinities and NaN."""
    table = torch.zeros(size)
    for code in range(size // 2):
        exponent, fraction = code >> fraction_bits, code % (1 << fraction_bits) / (1 << fraction_bits)
        value = (1 + fraction) * 2.0 ** (exponent - bias) if exponent else fraction * 2.0 ** (1 - bias)
        table[code], table[code + size // 2] = value, -value
    return table


HIF8, E4M3, E5M2, E2M1 = hif8_table(), float_table(4, 3, 7), float_table(5, 2, 15), float_table(2, 1, 1, 16)


def round_to(x, fraction_bits, least_exponent, most, away):
    """x rounded to so many fraction bits (a tensor or a number), at exponents below `least_exponent` to its step."""
    exponent = torch.frexp(x.abs().clamp(max=most))[1] - 1
    step = torch.ldexp(torch.ones_like(x), exponent.clamp(min=least_exponent) - fraction_bits(exponent))
    steps = x.clamp(-most, most) / step
    return (steps.abs().add(0.5).floor() * steps.sign() if away else steps.round()) * step


def hif8_bits(exponent):
    size = exponent.clamp(min=-22).abs()
    return 3 - (size > 3).int() - (size > 7).int() - (size > 15).int()


def round_hif8(x):
    """The nearest HiF8 value, ties away from zero, saturating at 2^15. x is float64, in which half a step is exact."""
    return round_to(x, hif8_bits, -22, 2.0**15, True)


ROUND = {
    "hif8": round_hif8,
    "fp8_e4m3": lambda x: round_to(x, lambda e: 3, -6, 448.0, False),
    "fp8_e5m2": lambda x: round_to(x, lambda e: 2, -14, 57344.0, False),
    "int8": lambda x: x.round().clamp(-127, 127),
    "mxfp4": lambda x: round_to(x, lambda e: 1, 0, 6.0, False),
}
ROUND["nvfp4"] = ROUND["mxfp4"]
LARGEST = {"hif8": 15.0, "fp8_e4m3": 448.0, "fp8_e5m2": 57344.0, "int8": 127.0}


# What a quantized module has besides codes, in any layout.
PARTS = (
    ".weight_scale", ".weight_offset", ".scale", ".input_scale", ".input_offset", ".deq_scale", ".quant_bias", ".k_scale", ".v_scale",
    ".kv_latent_scale", ".k_rope_scale", ".ckv_scale",
)  # fmt: skip


def group_of(kind, strategy, size=None, blocks=None):
    """A scheme that a layout names in one word, as a config group of compressed-tensors."""
    inputs = {"type": "int" if kind == "int8" else "float", "num_bits": 4 if kind == "mxfp4" else 8, "strategy": strategy, "group_size": size}
    if kind.startswith("mx"):
        inputs["scale_dtype"] = "torch.uint8"
    return {"weights": {"group_size": size if kind.startswith("mx") else None, "block_structure": blocks}, "input_activations": inputs}


MX8, MX4 = group_of("mxfp8", "group", 32), group_of("mxfp4", "group", 32)
NATIVE = {"fp8": group_of("fp8_e4m3", "group", 128, [128, 128]), "mxfp8": MX8}
ASCEND_V1 = {
    "W8A8": group_of("int8", "tensor"), "W8A8_DYNAMIC": group_of("int8", "token"), "W8A8FP8_DYNAMIC": group_of("fp8_e4m3", "token"),
    "W8A8_MXFP8": MX8, "W4A4_MXFP4": MX4, "W4A8_MXFP": MX8,
}  # fmt: skip


class QuantizedLinear(torch.nn.Module):
    """y = W rounded(x) + b. `kind` names the format of inputs, `scale` is a static scale; without it, `group` 0 is a scale of 1
    for "tensor" and one per token for "token", else one for each `group` inputs, a power of two where `power` is set."""

    def __init__(self, linear, kind, strategy, scale=None, group=0, power=None, clip=None, token_target=LARGEST["hif8"],
                 global_scale=None):
        super().__init__()
        self.global_scale = global_scale
        self.weight, self.bias = linear.weight, linear.bias
        self.kind, self.strategy, self.scale, self.group, self.power, self.clip = kind, strategy, scale, group, power, clip
        self.target = token_target if kind == "hif8" else LARGEST.get(kind)

    def rounded(self, x):
        shape, columns = x.shape, x.shape[-1]
        values = x.float()
        if self.clip is not None:
            values = values.clamp(-self.clip, self.clip)
        if self.strategy == "tensor":
            scale = torch.tensor(1.0 if self.scale is None else self.scale)
        else:
            size = self.group or columns
            values = torch.nn.functional.pad(values, (0, -columns % size)).reshape(*shape[:-1], -1, size)
            amax = values.abs().amax(-1, keepdim=True)
            if self.kind == "nvfp4":  # E4M3 numbers over one number of the tensor
                number = ROUND["fp8_e4m3"]((amax / 6 * self.global_scale).double()).clamp(min=2.0**-9)
                scale = number.float() / self.global_scale
            elif self.power is None:
                scale = torch.where(amax > 0, amax / self.target, torch.ones_like(amax))
            else:
                scale = torch.ldexp(torch.ones_like(amax), torch.frexp(amax)[1] - 1 - self.power)
        # The quotient is rounded to float32, as everywhere; the rest is exact in float64.
        result = ROUND[self.kind]((values / scale).double()).float() * scale
        return result.reshape(*shape[:-1], -1)[..., :columns].to(x.dtype)

    def forward(self, x):
        return torch.nn.functional.linear(self.rounded(x), self.weight, self.bias)


class Checkpoint:
    """A folder of hif8-calibrate."""

    def __init__(self, folder, clip_target=None, token_target=LARGEST["hif8"]):
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.quantization = self.config.get("quantization_config") or {}
        description = folder / "quant_model_description.json"
        self.description = json.loads(description.read_text(encoding="utf-8")) if description.exists() else {}
        self.clip_target, self.token_target = clip_target, token_target
        index = folder / "model.safetensors.index.json"
        files = sorted(folder.glob("*.safetensors"))
        if index.exists():
            files = [folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
        self.tensors = {}
        for file in files:
            if not file.name.startswith("reference"):
                self.tensors.update(read_safetensors(file))

    def scheme(self, layer):
        """The config group of a layer; None when the layer is kept. A name wins over a class."""
        if self.description:
            return ASCEND_V1.get(self.description.get(layer + ".weight"))
        if self.quantization.get("quant_method") in NATIVE:
            kept = layer in self.quantization["ignored_layers"]
            return None if kept else NATIVE[self.quantization["quant_method"]]
        if layer in (self.quantization.get("ignore") or []):
            return None
        groups = list((self.quantization.get("config_groups") or {}).values())
        classes = [None, "MoEGMM", "Linear"] if ".experts." in layer else [None, "Linear"]
        for wanted in classes:
            for group in groups:
                for target in group["targets"]:
                    named = re.match(target[3:], layer) if target.startswith("re:") else target == layer
                    if target == wanted if wanted else named:
                        return group
        return None

    def number(self, name):
        return self.tensors[name][1].float()

    def weights(self):
        """Every tensor of the original as float32 by its name there."""
        weights = {}
        for name, (kind, tensor) in self.tensors.items():
            if name.endswith(PARTS):
                continue
            if name.endswith("_global_scale"):
                continue
            weight = name.removesuffix("_packed")
            scale = self.scale_of(weight)
            if scale is None:
                weights[name] = self.own_bias(name, tensor.float()) if tensor.is_floating_point() else tensor
            elif name != weight or (kind in ("U8", "I8") and scale[0] == "U8"):
                weights[weight] = self.decode_packed(weight, tensor, *scale)
            else:
                weights[weight] = self.decode(weight, kind, tensor, *scale)
        return weights

    def scale_of(self, weight):
        """(type, scales) of a tensor of codes; None for one without."""
        name = weight + "_scale"
        if name not in self.tensors and weight.endswith(".weight"):
            name = weight[: -len(".weight")] + ".scale"
        return self.tensors.get(name)

    def own_bias(self, name, values):
        """Layout cann holds the bias of a HiF8 layer divided by the scales of its weight."""
        weight = name.removesuffix(".bias") + ".weight"
        if not name.endswith(".bias") or self.quantization.get("layout") != "cann" or weight not in self.tensors:
            return values
        kind, scale = self.scale_of(weight) or (None, None)
        return values * scale.float().reshape(-1) if self.tensors[weight][0] == "U8" and kind != "U8" else values

    def decode(self, name, kind, codes, scale_kind, scale):
        tables = {"F8_E4M3": E4M3, "F8_E5M2": E5M2, "U8": HIF8}
        values = codes.float() if kind == "I8" else tables[kind][codes.long()]
        scale = exponents(scale) if scale_kind == "U8" else scale.float()
        return values * self.spread(name[: -len(".weight")], scale, values.shape)

    def decode_packed(self, name, packed, kind, scale):
        pairs = torch.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)
        values = E2M1[pairs.long()]
        if kind == "U8":
            scale = exponents(scale)
        else:  # NVFP4
            scale = E4M3[scale.long()] / self.number(name + "_global_scale")
        return values * self.spread(name[: -len(".weight")], scale, values.shape)

    def spread(self, layer, scale, shape):
        """A scale for every element."""
        if scale.dim() < 2:
            return scale.reshape(-1)[0]
        weights = (self.scheme(layer) or {"weights": {}})["weights"]
        rows, columns = weights.get("block_structure") or (1, weights.get("group_size") or shape[-1])
        wide = scale.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
        return wide[..., : shape[-2], : shape[-1]]

    def input_kind(self, group):
        inputs = group["input_activations"]
        if inputs["type"] == "int":
            return "int8"
        if inputs["num_bits"] == 4:
            return "nvfp4" if inputs["strategy"] == "tensor_group" else "mxfp4"
        return "hif8" if group.get("format") == "hif8-quantized" else "fp8_e4m3"

    def quantized_linear(self, name, linear):
        """The module with rounded inputs, or the module itself where inputs are not rounded."""
        group = self.scheme(name)
        if group is None or group["input_activations"] is None:
            return linear
        inputs, kind = group["input_activations"], self.input_kind(group)
        scale = self.number(name + ".input_scale").item() if name + ".input_scale" in self.tensors else None
        power = None
        if inputs.get("scale_dtype") == "torch.uint8":
            power = 2 if kind == "mxfp4" else 8
        global_scale = None
        if name + ".input_global_scale" in self.tensors:
            global_scale = self.number(name + ".input_global_scale").item()
        clip = scale * self.clip_target if self.clip_target and scale is not None else None
        strategy = inputs["strategy"]
        return QuantizedLinear(linear, kind, strategy, scale, inputs.get("group_size") or 0, power, clip, self.token_target, global_scale)

    def replace_linears(self, model):
        """Puts quantized modules in the place of the model's Linear ones. Module names are those of the checkpoint."""
        for name, module in list(model.named_modules()):
            if isinstance(module, torch.nn.Linear):
                parent, _, last = name.rpartition(".")
                setattr(model.get_submodule(parent), last, self.quantized_linear(name, module))


def exponents(codes):
    return torch.ldexp(torch.ones(codes.shape), codes.int() - 127)
