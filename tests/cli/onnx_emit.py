"""Writes ONNX files with nothing but Python's standard library and numpy: protobuf by its definition, field by field.

A message is a list of (field number, value): an int is a varint, a float a 32-bit float, text and bytes a string, a
list a message.
"""

import struct

import numpy as np

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(fields):
    out = b""
    for number, value in fields:
        if isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = message(value) if isinstance(value, list) else value
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def fields_of(data):
    """A serialized message as message() takes it; nested ones stay bytes."""
    fields, at = [], 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            fields.append((key >> 3, number()))
        elif key & 7 == 5:
            fields.append((key >> 3, struct.unpack("<f", data[at : at + 4])[0]))
            at += 4
        else:
            assert key & 7 == 2, key
            size = number()
            fields.append((key >> 3, bytes(data[at : at + size])))
            at += size
    return fields


def tensor(name, array):
    """An initializer that holds its bytes in raw_data."""
    array = np.asarray(array)
    return [(1, d) for d in array.shape] + [(2, TYPES[array.dtype.name]), (8, name), (9, array.tobytes())]


def raw(name, kind, codes):
    """An initializer of one-byte elements of a type that numpy does not have."""
    return [(1, d) for d in codes.shape] + [(2, kind), (8, name), (9, codes.astype("u1").tobytes())]


def external(name, shape, location, offset=None, length=None):
    """A float32 initializer whose bytes are in another file."""
    entries = {"location": location, "offset": offset, "length": length}
    fields = [(1, d) for d in shape] + [(2, 1), (8, name), (14, 1)]
    return fields + [(13, [(1, k), (2, str(v))]) for k, v in entries.items() if v is not None]


class Reference:
    """The value of an attribute inside of a function: the call's attribute of that name."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind


def attribute(name, value):
    if isinstance(value, Reference):
        return [(1, name), (21, value.name), (20, value.kind)]
    if isinstance(value, Graph):
        return [(1, name), (6, value.fields()), (20, 5)]
    if isinstance(value, np.ndarray):
        return [(1, name), (5, tensor("", value)), (20, 4)]
    if isinstance(value, list):
        return [(1, name)] + [(8, v) for v in value] + [(20, 7)]
    if isinstance(value, float):
        return [(1, name), (2, value), (20, 1)]
    if isinstance(value, int):
        return [(1, name), (3, value), (20, 2)]
    return [(1, name), (4, value), (20, 3)]


def node(op, inputs, outputs, name="", domain="", **attributes):
    """inputs and outputs are names separated by spaces, '-' for one that is left out, or lists of names."""
    split = lambda names: ["" if n == "-" else n for n in names.split()] if isinstance(names, str) else names
    fields = [(1, n) for n in split(inputs)] + [(2, n) for n in split(outputs)] + [(3, name), (4, op)]
    return fields + [(5, attribute(k, v)) for k, v in attributes.items()] + ([(7, domain)] if domain else [])


def value(name, shape, dtype="float32"):
    """A graph's input or output. A dimension is a number, a name, or None; a shape of None is not given."""
    dims = [] if shape is None else [(2, [(1, [] if d is None else [(2 if isinstance(d, str) else 1, d)]) for d in shape])]
    return [(1, name), (2, [(1, [(1, TYPES[dtype])] + dims)])]


class Graph:
    def __init__(self, inputs=(), outputs=(), nodes=(), weights=None, tensors=()):
        """weights are arrays by name, tensors are initializers made by tensor() or external()."""
        self.inputs, self.outputs, self.nodes = list(inputs), list(outputs), list(nodes)
        self.tensors = list(tensors) + [tensor(n, a) for n, a in (weights or {}).items()]

    def fields(self):
        return (
            [(1, n) for n in self.nodes] + [(2, "graph")] + [(5, t) for t in self.tensors]
            + [(11, v) for v in self.inputs] + [(12, v) for v in self.outputs]
        )  # fmt: skip


def function(domain, name, inputs, outputs, nodes, opset=17, defaults=None, others=()):
    """For model(functions=): defaults are attributes with a value, others the domains that it calls."""
    fields = [(1, name)] + [(4, i) for i in inputs.split()] + [(5, o) for o in outputs.split()] + [(7, n) for n in nodes]
    fields += [(9, [(2, opset)])] + [(9, [(1, other), (2, 1)]) for other in others] + [(10, domain)]
    return fields + [(11, attribute(k, v)) for k, v in (defaults or {}).items()]


def model(graph, opset=17, ir=8, functions=()):
    domains = {dict(f)[10] for f in functions}
    fields = [(1, ir), (7, graph.fields()), (8, [(2, opset)])] + [(8, [(1, d), (2, 1)]) for d in sorted(domains)]
    return message(fields + [(25, f) for f in functions])
