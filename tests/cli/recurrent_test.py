"""Recurrent layers whose input has time first, through the program: recurrent_test.py HIF8_CALIBRATE.

The layer's states are computed here with numpy, step by step over the whole sequence.
"""

import unittest

import numpy as np
from onnx_emit import Graph, model, node, value
from onnx_program import OnnxProgramCase

STEPS, INPUTS, HIDDEN = 40, 8, 16


class RecurrentCases(OnnxProgramCase):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.weights = {
            "w": random.standard_normal((1, HIDDEN, INPUTS)).astype("f4") * np.float32(0.01),
            "r": np.eye(HIDDEN, dtype="f4")[None] * np.float32(0.97),
            "l": random.standard_normal((HIDDEN, 4)).astype("f4"),
        }
        self.x = random.standard_normal((2 * STEPS, 1, INPUTS)).astype("f4") + np.float32(0.5)

    def largest_state(self, x):
        state, largest = np.zeros(HIDDEN, "f4"), 0
        for step in x[:, 0]:
            state = np.tanh(self.weights["w"][0] @ step + self.weights["r"][0] @ state)
            largest = max(largest, float(abs(state).max()))
        return largest

    def seen(self, leading, x, *nodes, **more):
        """The largest input of the layer behind the RNN."""
        np.save("x.npy", x)
        nodes = [*nodes, node("RNN", f"{'t' if nodes else 'x'} w r", "s", "rnn", hidden_size=HIDDEN)]
        nodes.append(node("MatMul", "s l", "y", "mm"))
        graph = Graph([value("x", [leading, 1, INPUTS])], [value("y", ["a", "b", "c", "d"])], nodes, self.weights)
        report = self.quantize(model(graph, opset=14), source="x.npy", **more)
        layer = next(layer for layer in report["layers"] if layer["name"] == "mm")
        return layer["activation"]["amax"]

    def test_an_open_sequence_is_one_run(self):
        expected = self.largest_state(self.x[:STEPS])
        single_steps = max(self.largest_state(self.x[i : i + 1]) for i in range(STEPS))
        self.assertGreater(expected, 2 * single_steps)  # or the test could not fail
        for leading in ("", "S", "s0", "batch_size"):
            with self.subTest(leading):
                self.assertAlmostEqual(self.seen(leading, self.x[:STEPS]) / expected, 1, delta=1e-5)

    def test_through_element_wise_operators(self):
        expected = self.largest_state(self.x[:STEPS])
        found = self.seen("S", self.x[:STEPS], node("Identity", "x", "t"))
        self.assertAlmostEqual(found / expected, 1, delta=1e-5)

    def test_a_fixed_sequence_is_one_sample(self):
        expected = max(self.largest_state(part) for part in np.split(self.x, 2))
        self.assertAlmostEqual(self.seen(STEPS, self.x) / expected, 1, delta=1e-5)


if __name__ == "__main__":
    unittest.main(argv=["recurrent_test.py"])
