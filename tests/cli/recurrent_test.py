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
        self.inputs = random.standard_normal((4, HIDDEN, INPUTS)).astype("f4") * np.float32(0.01)
        self.memory = np.eye(HIDDEN, dtype="f4") * np.float32(0.97)
        self.last = random.standard_normal((HIDDEN, 4)).astype("f4")
        self.x = random.standard_normal((2 * STEPS, 1, INPUTS)).astype("f4") + np.float32(0.5)

    def largest_state(self, x, op="RNN"):
        state, cell, largest = np.zeros(HIDDEN, "f4"), np.zeros(HIDDEN, "f4"), 0
        for step in x[:, 0]:
            state, cell = self.step(op, step, state, cell)
            largest = max(largest, float(abs(state).max()))
        return largest

    def step(self, op, x, state, cell):
        """The definitions of ONNX; gates in its order, which all remember in the same way."""
        gates = [w @ x for w in self.inputs]
        kept = self.memory @ state
        sigmoid = lambda v: 1 / (1 + np.exp(-v))
        if op == "RNN":
            return np.tanh(gates[0] + kept), cell
        if op == "GRU":
            update, reset = sigmoid(gates[0] + kept), sigmoid(gates[1] + kept)
            return (1 - update) * np.tanh(gates[2] + self.memory @ (reset * state)) + update * state, cell
        into, out, forget, candidate = (gate + kept for gate in gates)
        cell = sigmoid(forget) * cell + sigmoid(into) * np.tanh(candidate)
        return sigmoid(out) * np.tanh(cell), cell

    def seen(self, leading, x, *nodes, op="RNN", **more):
        """The largest input of the layer behind the recurrent one."""
        np.save("x.npy", x)
        gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
        weights = {
            "w": self.inputs[:gates].reshape(1, -1, INPUTS),
            "r": np.concatenate([self.memory] * gates)[None],
            "l": self.last,
        }
        nodes = [*nodes, node(op, f"{'t' if nodes else 'x'} w r", "s", "recurrent", hidden_size=HIDDEN)]
        nodes.append(node("MatMul", "s l", "y", "mm"))
        graph = Graph([value("x", [leading, 1, INPUTS])], [value("y", ["a", "b", "c", "d"])], nodes, weights)
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

    def test_every_kind_of_layer(self):
        for op in ("RNN", "GRU", "LSTM"):
            with self.subTest(op):
                expected = self.largest_state(self.x[:STEPS], op)
                single_steps = max(self.largest_state(self.x[i : i + 1], op) for i in range(STEPS))
                self.assertGreater(expected, 1.2 * single_steps)  # or the test could not fail
                self.assertAlmostEqual(self.seen("S", self.x[:STEPS], op=op) / expected, 1, delta=1e-5)

    def test_through_element_wise_operators(self):
        expected = self.largest_state(self.x[:STEPS])
        found = self.seen("S", self.x[:STEPS], node("Identity", "x", "t"))
        self.assertAlmostEqual(found / expected, 1, delta=1e-5)

    def test_a_fixed_sequence_is_one_sample(self):
        expected = max(self.largest_state(part) for part in np.split(self.x, 2))
        self.assertAlmostEqual(self.seen(STEPS, self.x) / expected, 1, delta=1e-5)


if __name__ == "__main__":
    unittest.main(argv=["recurrent_test.py"])
