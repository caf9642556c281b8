"""Quantized constants of an ONNX file decoded with numpy from the operators' definitions.

Reads what onnx_emit.py describes and what hif8-calibrate writes; tables of values are of plain_formats.py.
"""

import numpy as np
from onnx_emit import TYPES, fields_of
from plain_formats import E2M1, E4M3, E5M2

F8_E4M3, F8_E5M2 = 17, 19  # element types
DTYPES = {number: np.dtype(name) for name, number in TYPES.items()} | {F8_E4M3: np.dtype("u1"), F8_E5M2: np.dtype("u1")}


def signed(number):
    return number - (1 << 64) if number >> 63 else number


class Decoder:
    def __init__(self, path, hif8):
        self.hif8 = hif8
        graph = next(fields_of(v) for n, v in fields_of(path.read_bytes()) if n == 7)
        self.nodes, self.tensors, self.types = {}, {}, {}
        for number, content in graph:
            if number == 1:
                self.add_node(fields_of(content))
            elif number == 5:
                self.add_tensor(fields_of(content))

    def add_node(self, fields):
        texts = lambda wanted: [v.decode() for n, v in fields if n == wanted]
        attributes = {}
        for content in (dict(fields_of(v)) for n, v in fields if n == 5):
            attributes[content[1].decode()] = signed(content.get(3, 0))
        op, domain = texts(4)[0], (texts(7) or [""])[0]
        self.nodes[texts(2)[0]] = (op, domain, texts(1), attributes)

    def add_tensor(self, fields):
        one = dict(fields)
        shape = [v for n, v in fields if n == 1]
        self.types[one[8].decode()] = one[2]
        if one[2] in DTYPES and 9 in one:
            self.tensors[one[8].decode()] = np.frombuffer(one[9], DTYPES[one[2]]).reshape(shape)

    def value(self, name):
        """In float64, but products are rounded to float32 as the operators do."""
        if name in self.tensors:
            return self.tensors[name]
        op, domain, inputs, attributes = self.nodes[name]
        if op == "Gather":
            return np.take(self.value(inputs[0]), self.value(inputs[1]), attributes.get("axis", 0))
        if op == "Reshape":
            return self.value(inputs[0]).reshape(self.value(inputs[1]))
        if op in ("Cast", "Identity"):
            return self.value(inputs[0])
        assert op == "DequantizeLinear", op
        if domain:
            return self.function(domain.removeprefix("ai."), *map(self.value, inputs))
        return self.standard(inputs, attributes)

    def function(self, number_format, codes, scales, global_scale=None):
        if number_format == "nvfp4":
            scales = (E4M3[scales].astype("f4") / global_scale).astype("f8")
        else:
            scales = np.exp2(scales - 127.0) if number_format.startswith("mx") else scales.astype("f8")
        if number_format in ("mxfp4", "nvfp4"):
            values = E2M1[np.stack([codes & 15, codes >> 4], -1)].reshape(scales.shape)
        elif number_format == "int8":
            values = codes.astype("i1").astype("f8")
        else:
            name = "e4m3" if number_format == "mxfp8" else number_format
            values = (self.hif8 if name == "hif8" else E4M3 if "e4m3" in name else E5M2)[codes]
        return (values * scales).astype("f4")

    def standard(self, inputs, attributes):
        codes = self.tensors[inputs[0]]
        kind = self.types[inputs[0]]
        values = E4M3[codes] if kind == F8_E4M3 else E5M2[codes] if kind == F8_E5M2 else codes.astype("f8")
        scales, zeros = (self.spread(self.tensors[n], codes.shape, attributes) if n else 0.0 for n in (*inputs, "")[1:3])
        return ((values - zeros) * scales).astype("f4")

    @staticmethod
    def spread(numbers, shape, attributes):
        axis = attributes.get("axis", 1)
        numbers = numbers.astype("f8")
        if numbers.size == 1:
            return numbers.reshape(())
        if block := attributes.get("block_size", 0):
            return np.take(np.repeat(numbers, block, axis), range(shape[axis]), axis)
        return numbers.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def sqnr(x, y):
    """In dB, summed in float64."""
    x, y = x.astype("f8"), y.astype("f8")
    noise = ((x - y) ** 2).sum()
    return float("inf") if noise == 0 else 10 * np.log10((x * x).sum() / noise)
