"""What tests of the program on ONNX models share: it is run in a folder of its own, on models made by onnx_emit.py.

The test's first argument is hif8-calibrate.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx_emit import Graph, model, node, value

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
RNG = np.random.default_rng(7)


def weight(*shape):
    return (RNG.standard_normal(shape) * 0.3).astype("f4")


W = weight(4, 3)
X, Y = [value("x", ["n", 4])], [value("y", None)]


def matmul(array=W, inputs=X, name="mm", **options):
    return model(Graph(inputs, Y, [node("MatMul", "x w", "y", name)], {"w": array}), **options)


class OnnxProgramCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.old = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, self.old)
        np.save("x.npy", weight(6, 4))

    def run_program(self, *args, code=0, says=(), stdin=None, **options):
        done = subprocess.run(
            [PROGRAM, *map(str, args)], capture_output=True, text=True, errors="replace", check=False, timeout=60,
            stdin=stdin, **options,
        )  # fmt: skip
        told = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, f"{args}\n{told[-2000:]}")
        for text in says:
            self.assertIn(text, told)
        self.assertEqual([p.name for p in self.folder.iterdir() if ".tmp-" in p.name], [])
        return done

    def quantize(self, data, *args, source="x.npy", code=0, says=()):
        """The report of a run on the model, None when it is to fail."""
        pathlib.Path("m.onnx").write_bytes(data)
        self.run_program("m.onnx", "--data", source, "-o", "out", "--force", *args, code=code, says=says)
        return json.loads(pathlib.Path("out/report.json").read_text()) if code == 0 else None

    def run_program_on(self, data, *args, code=0):
        pathlib.Path("m.onnx").write_bytes(data)
        return self.run_program("m.onnx", "--data", "x.npy", "-o", "out", "--force", *args, code=code)
