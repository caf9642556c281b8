"""What tests of the program on ONNX models share: it is run in a folder of its own, on models made by onnx_emit.py."""

import json
import pathlib

import numpy as np
from onnx_emit import Graph, model, node, value
from program_case import CalibrateCase

RNG = np.random.default_rng(7)


def weight(*shape):
    return (RNG.standard_normal(shape) * 0.3).astype("f4")


W = weight(4, 3)
X, Y = [value("x", ["n", 4])], [value("y", None)]


def matmul(array=W, inputs=X, name="mm", **options):
    return model(Graph(inputs, Y, [node("MatMul", "x w", "y", name)], {"w": array}), **options)


class OnnxProgramCase(CalibrateCase):
    def setUp(self):
        super().setUp()
        self.enter_folder()
        np.save("x.npy", weight(6, 4))

    def run_program(self, *args, **options):
        done = super().run_program(*args, timeout=60, **options)
        self.assertEqual([p.name for p in self.folder.iterdir() if ".unfinished" in p.name], [])
        return done

    def quantize(self, data, *args, source="x.npy", code=0, says=()):
        """The report of a run on the model, None when it is to fail."""
        pathlib.Path("m.onnx").write_bytes(data)
        self.run_program("m.onnx", "--data", source, "-o", "out", "--force", *args, code=code, says=says)
        return json.loads(pathlib.Path("out/report.json").read_text()) if code == 0 else None

    def run_program_on(self, data, *args, code=0):
        pathlib.Path("m.onnx").write_bytes(data)
        return self.run_program("m.onnx", "--data", "x.npy", "-o", "out", "--force", *args, code=code)
