"""Formats side by side on an OCR network, against float64 arithmetic: compare_onnx_test.py ROOT BIN_DIR.

What layers read comes from npm's onnxruntime-node, which runs the file with every such tensor as one more output; weights
come from the file's bytes. Weights, inputs and outputs under every format, computed from these with numpy and the
formats' definitions, must agree with the report to 0.02 dB, and so must scale rules by brute force. Comparing six formats
may take three times as long as one.
"""

import pathlib
import sys
import tempfile

import inputs
import numpy as np
from number_formats import ALL, TOKEN, densest_scale, least_error_scale, percentile, prescribed_tile, rounded, scales_of, sqnr
from side_by_side import FORMATS, Check, compare_all, input_as, rows_of, weight_as
from stock import calibrate, emit, ocr_model, stock_ort

TYPES = {1: "<f4", 6: "<i4", 7: "<i8"}


def many(fields, number):
    return [value for key, value in fields if key == number]


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def array_of(data):
    tensor = emit.fields_of(data)
    fields = dict(tensor)
    shape, dtype = many(tensor, 1), TYPES[fields[2]]
    if 9 in fields:
        return np.frombuffer(fields[9], dtype).reshape(shape)
    assert fields[2] == 1 and isinstance(fields.get(4, b""), bytes), "a tensor of other fields than raw_data and float_data"
    return np.frombuffer(fields.get(4, b""), dtype).reshape(shape)


class Node:
    def __init__(self, data):
        fields = emit.fields_of(data)
        self.inputs, self.outputs = ([name.decode() for name in many(fields, number)] for number in (1, 2))
        self.name, self.op = (dict(fields).get(number, b"").decode() for number in (3, 4))
        self.attributes = {dict(a)[1].decode(): a for a in map(emit.fields_of, many(fields, 5))}

    def tensor(self, name):
        return array_of(dict(self.attributes[name])[5])

    def number(self, name, usual):
        return signed(dict(self.attributes[name])[3]) if name in self.attributes else usual

    def numbers(self, name, usual):
        return [signed(v) for v in many(self.attributes[name], 8)] if name in self.attributes else usual


class Network:
    """Nodes and constants of a file's graph."""

    def __init__(self, path):
        self.bytes = path.read_bytes()
        graph = emit.fields_of(dict(emit.fields_of(self.bytes))[7])
        self.nodes = [Node(data) for data in many(graph, 1)]
        self.constants = {dict(emit.fields_of(data))[8].decode(): array_of(data) for data in many(graph, 5)}
        for node in self.nodes:
            if node.op == "Constant":
                self.constants[node.outputs[0]] = node.tensor("value")
        self.layers = [node for node in self.nodes if node.op in ("Conv", "MatMul", "Gemm") and self.is_layer(node)]

    def is_layer(self, node):
        return node.inputs[0] not in self.constants and node.inputs[1] in self.constants

    def inputs_of(self, files, work):
        """By name, the tensors that layers read, over all files."""
        names = sorted({node.inputs[0] for node in self.layers})
        # Protobuf merges what is appended: the graph gets further outputs.
        (work / "outputs.onnx").write_bytes(self.bytes + emit.message([(7, [(12, emit.value(name, None)) for name in names])]))
        (work / "tensors").mkdir()
        stock_ort("all", work / "outputs.onnx", work / "tensors", *files)
        read = lambda i: np.concatenate([np.load(work / "tensors" / f"{i}_{file.name}") for file in files])
        own = len(many(emit.fields_of(dict(emit.fields_of(self.bytes))[7]), 12))
        return {name: read(own + i) for i, name in enumerate(names)}


class Convolution:
    """A Conv as sums over [outputs, inputs * kernel] weights."""

    def __init__(self, node, w, bias):
        assert node.numbers("dilations", [1, 1]) == [1, 1] and "auto_pad" not in node.attributes
        self.strides, self.pads = node.numbers("strides", [1, 1]), node.numbers("pads", [0, 0, 0, 0])
        self.groups, self.kernel = node.number("group", 1), w.shape[2:]
        self.bias = 0 if bias is None else bias.reshape(self.groups, 1, -1)
        self.w = w.reshape(len(w), -1)

    def rows(self, x):
        """What the layer sums over, along the last dimension."""
        return x.transpose(0, 2, 3, 1)

    def run(self, rows, w):
        (top, left, bottom, right), groups = self.pads, self.groups
        x = np.pad(rows.transpose(0, 3, 1, 2), ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = np.lib.stride_tricks.sliding_window_view(x, self.kernel, axis=(2, 3))
        windows = windows[:, :, :: self.strides[0], :: self.strides[1]]
        windows = windows.reshape(windows.shape[0], groups, -1, *windows.shape[2:]).transpose(1, 0, 3, 4, 2, 5, 6)
        size = w.shape[1]
        return windows.reshape(groups, -1, size) @ w.reshape(groups, -1, size).transpose(0, 2, 1) + self.bias


class Product:
    def __init__(self, w):
        self.w = w.T

    def rows(self, x):
        return x

    def run(self, rows, w):
        return rows @ w.T


def layer_of(network, node):
    w = network.constants[node.inputs[1]].astype(np.float64)
    if node.op == "MatMul":
        return Product(w)
    assert node.op == "Conv", node.op
    return Convolution(node, w, network.constants[node.inputs[2]].astype(np.float64) if len(node.inputs) > 2 else None)


def check_formats(layers, read, rows, rows_by_token):
    whole, by_token = Check(rows), Check(rows_by_token)
    for name, layer in layers.items():
        x, w = layer.rows(read[name]), layer.w
        flat, y = x.reshape(-1, x.shape[-1]), layer.run(x, w)
        for form in FORMATS:
            wq = weight_as(form, w)
            for check, tile, target in (whole, ALL, None), (by_token, TOKEN, 15 if form == "hif8" else None):
                if tile == ALL or not prescribed_tile(form, False):
                    xq = input_as(form, flat, tile, target)
                    yq = layer.run(xq.reshape(x.shape), wq)
                check.equal(name, "weight", form, w, wq)
                check.equal(name, "activation", form, flat, xq)
                check.equal(name, "output", form, y, yq)
    whole.finish()
    by_token.finish()


def check_rules(layers, read, rows):
    """Rules by brute force, on the layers that are small enough for it."""
    small = sorted(layers, key=lambda name: layers[name].w.size + read[name].size)[:4]
    check = Check({key: value for key, value in rows.items() if key[0] in small and ":" in key[2] and key[1] != "output"})
    for name in small:
        x, w = read[name], layers[name].w
        for form in ("hif8", "int8"):
            error = lambda scale: sqnr(x, rounded(form, x, scale))
            search = densest_scale if form == "hif8" else least_error_scale
            scales = [[search(form, channel)] for channel in w]
            check.equal(name, "weight", f"{form}:mse", w, rounded(form, w, scales))
            scales = scales_of(form, np.array([[percentile(channel, 99.9)] for channel in w]))
            check.equal(name, "weight", f"{form}:percentile", w, rounded(form, w, scales))
            # Activations are known from a record of their magnitudes: a percentile to 2^-7, the least error to 0.05 dB.
            best = error(least_error_scale(form, x))
            check.between(name, "activation", f"{form}:mse", best - 0.03, best)
            scale = scales_of(form, np.array(percentile(x, 99)))
            near = [error(scale * (1 + i / 1024)) for i in range(-8, 9)]
            check.between(name, "activation", f"{form}:percentile", min(near), max(near))
    check.finish()


def main():
    model = ocr_model("ch_PP-OCRv4_rec_infer.onnx")
    network = Network(model)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        inputs.photos(work / "photos", 48, 320, 3)
        data = ("--data", work / "photos")
        compare = lambda *options: rows_of(calibrate(model, work / "out", *data, *options))
        rows = compare_all(model, work / "out", *data)
        by_token = compare("--set", "activations.granularity=token", "--compare", "all")
        by_rule = compare("--compare", "hif8:mse,hif8:percentile,int8:mse,int8:percentile")
        tensors = network.inputs_of(sorted((work / "photos").glob("*.npy")), work)
    layers = {node.name: layer_of(network, node) for node in network.layers}
    read = {node.name: tensors[node.inputs[0]].astype(np.float64) for node in network.layers}
    check_formats(layers, read, rows, by_token)
    check_rules(layers, read, by_rule)
    return 0


if __name__ == "__main__":
    sys.exit(main())
