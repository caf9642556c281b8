"""Damaged ONNX graphs through every program and mode: faults_test.py HIF8_CALIBRATE HIF8_REPORT TESTS_DATA.

None may crash, hang or end as a bug; each says what is wrong and leaves nothing behind.
"""

import json
import os
import pathlib
import sys
import unittest

import numpy as np
from onnx_emit import Graph, model, node, value
from program_case import PROGRAM, FolderCase

REPORT = pathlib.Path(sys.argv[2]).resolve()
FAULTS = pathlib.Path(sys.argv[3]).resolve() / "faults"


class FaultCases(FolderCase):
    def setUp(self):
        super().setUp()
        self.enter_folder()

    def modes(self, path):
        return [
            (PROGRAM, path, "--data", "random:1", "--dry-run"), (PROGRAM, path, "--data", "random:2", "-o", "out"),
            (PROGRAM, path, "--data", "random:1", "-o", "out", "--set", "attention=true"), (REPORT, "inspect", path),
            (REPORT, path, path),
        ]  # fmt: skip

    def assert_refused(self, path, *says):
        for command in self.modes(path):
            self.run_command(*command, code=3, says=("error: ", "hint: ", *says), timeout=60)
            self.assertFalse(os.path.exists("out"), command)

    def test_graphs_that_broke_the_programs(self):
        self.assert_refused(FAULTS / "bug70-matmul-one-input.onnx", "'mm2' (MatMul) has 1 inputs, expected 2")
        self.assert_refused(FAULTS / "bug70-vector-max-size.onnx", "input 'x' has an impossible shape")
        self.assert_refused(FAULTS / "crash1-scan-without-num_scan_inputs.onnx", "no attribute 'num_scan_inputs'")
        self.assert_refused(FAULTS / "crash2-hif8-dequantize-one-input.onnx", "bb", "16 bytes", "28")
        self.assert_refused(FAULTS / "crash3-int64-scalar-of-4-bytes.onnx", "4 bytes", "8")
        self.assert_refused(FAULTS / "crash4-heap-corruption.onnx", "input 'x' has an impossible shape")
        self.assert_refused(FAULTS / "crash5-convtranspose-shape-inference.onnx", "weight of 2 dimensions")

    def test_a_sparse_bias_is_a_bias(self):
        path = FAULTS / "sparse-bias.onnx"
        self.run_command(PROGRAM, path, "--data", "random:2", "-o", "out")
        report = json.loads(pathlib.Path("out/report.json").read_text())
        self.assertEqual([layer["status"] for layer in report["layers"]], ["quantized"])
        self.assertGreater(report["layers"][0]["output"]["sqnr_db"], 20)
        for command in self.modes(path)[:1] + self.modes(path)[3:]:
            self.run_command(*command)

    def test_siblings(self):
        x, y = [value("x", [1, 4])], [value("y", [1, 4])]
        w = np.ones((4, 4), "f4")
        cases = {
            "'c' (Concat) has no attribute 'axis'": Graph(x, y, [node("Concat", "x x", "y", "c")]),
            "'s' (Softmax): its attribute 'axis' is of type STRING, expected INT": Graph(
                x, y, [node("Softmax", "x", "y", "s", axis="one")]
            ),
            "circle": Graph(x, y, [node("Add", "x b", "a"), node("MatMul", "a w", "b"), node("Relu", "b", "y")], {"w": w}),
            "leaves out its input 0": Graph(x, y, [node("MatMul", "- w", "y", "m")], {"w": w}),
            "reads 'v', which nothing defines": Graph(x, y, [node("MatMul", "x v", "y", "m")]),
            "has 0 outputs, expected 1": Graph(x, x, [node("MatMul", "x w", "", "m")], {"w": w}),
            "(DequantizeLinear) has 1 inputs": Graph(x, y, [node("DequantizeLinear", "x", "y", "d", domain="ai.hif8")]),
        }
        for says, graph in cases.items():
            with self.subTest(says):
                pathlib.Path("m.onnx").write_bytes(model(graph, opset=13))
                self.assert_refused("m.onnx", says)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
