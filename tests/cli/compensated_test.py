"""weights.rounding: compensated, through the program: compensated_test.py HIF8_CALIBRATE.

Codes are compared with GPTQ and coordinate descent as their papers write them, in numpy with float64 and an explicit inverse; no
code is shared with the project.
"""

import json
import pathlib
import shutil
import sys
import unittest

import numpy as np
from onnx_emit import Graph, model, node, value
from onnx_program import OnnxProgramCase
from plain_files import floats, read_file, write_file
from plain_formats import hif8, nearest
from plain_onnx import Decoder
from program_case import PROGRAM, FolderCase

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
HIF8 = hif8(DATA)
RNG = np.random.default_rng(5)


def quantize(values, scale):
    """Codes and what they stand for; values are divided in fp32."""
    codes = nearest(HIF8, np.asarray(values, "f4") / np.asarray(scale, "f4"))
    return codes, HIF8[codes] * np.asarray(scale, "f8")


def compensated(weight, scales, inputs, damping, passes=2):
    """The codes of [out, in] for layers that read `inputs` [rows, in]."""
    moments = inputs.T.astype("f8") @ inputs.astype("f8") / len(inputs)
    order = np.argsort(-np.diag(moments), kind="stable")
    h = moments[np.ix_(order, order)] + np.eye(len(order)) * damping * np.diag(moments).mean()
    w = weight[:, order].astype("f8")
    codes, rounded = np.zeros(w.shape, int), np.zeros(w.shape)
    inverse, target = np.linalg.inv(h), w.copy()
    for k in range(len(order)):
        codes[:, k], rounded[:, k] = quantize(target[:, k], scales)
        error = (target[:, k] - rounded[:, k]) / inverse[k, k]
        target[:, k + 1 :] -= np.outer(error, inverse[k, k + 1 :])
        inverse -= np.outer(inverse[:, k], inverse[k]) / inverse[k, k]
    for _ in range(passes):
        for k in range(len(order)):
            gradient = (w - rounded) @ h[:, k]
            code, value = quantize(rounded[:, k] + gradient / h[k, k], scales)
            by = value - rounded[:, k]
            better = by * by * h[k, k] - 2 * by * gradient < 0
            codes[better, k], rounded[better, k] = code[better], value[better]
    result = np.zeros(w.shape, int)
    result[:, order] = codes
    return result


class CompensatedCases(FolderCase):
    LAYER = "model.layers.0.mlp.up_proj"

    def setUp(self):
        super().setUp()
        self.enter_folder()
        self.mix = RNG.standard_normal((24, 24)) / 4 + np.eye(24)
        self.inputs = self.rows(96)
        self.weight = RNG.standard_normal((40, 24)).astype("f4")
        pathlib.Path("m").mkdir()
        write_file(pathlib.Path("m/model.safetensors"), {self.LAYER + ".weight": self.tensor(self.weight)})
        self.capture(self.inputs)

    @staticmethod
    def tensor(values):
        return "F32", list(values.shape), values.tobytes()

    def rows(self, count):
        return (RNG.standard_normal((count, 24)) @ self.mix).astype("f4")

    def capture(self, inputs):
        shutil.rmtree("captured", ignore_errors=True)
        pathlib.Path("captured").mkdir()
        for i, part in enumerate(np.split(inputs, min(4, len(inputs)))):
            write_file(pathlib.Path(f"captured/{i}.safetensors"), {self.LAYER: self.tensor(part)})

    def codes(self, rounding, *args):
        command = [PROGRAM, "m", "--activations", "captured", "-o", "out", "--force"]
        self.run_command(*command, "--set", f"weights.rounding={rounding}", *args)
        tensors = read_file(pathlib.Path("out/model.safetensors"))[0]
        self.notes = json.loads(pathlib.Path("out/report.json").read_text())["layers"][0]["weight"]["notes"]
        codes = np.frombuffer(tensors[self.LAYER + ".weight"][2], "u1").reshape(40, 24)
        return codes, np.array(floats(tensors[self.LAYER + ".weight_scale"]), "f4").reshape(40)

    def test_codes_are_those_of_the_papers(self):
        codes, scales = self.codes("compensated")
        scale = np.float32(abs(self.inputs).max()) / np.float32(16)
        rounded = quantize(self.inputs, scale)[1].astype("f4")
        expected = compensated(self.weight, scales, rounded, 0.1)
        np.testing.assert_array_equal(HIF8[codes], HIF8[expected])
        self.assertIn("rounded for the layer's output", self.notes)
        plain, _ = self.codes("nearest")
        self.assertGreater((plain != codes).mean(), 0.1)  # or the comparison would show nothing

    def test_the_output_of_other_rows_is_nearer(self):
        others, errors = self.rows(1000), {}
        for rounding in ("nearest", "compensated"):
            codes, scales = self.codes(rounding)
            wrong = HIF8[codes] * scales.reshape(40, 1) - self.weight
            errors[rounding] = float(((others @ wrong.T) ** 2).mean())
        self.assertLess(errors["compensated"], 0.8 * errors["nearest"])

    def test_few_rows_are_damped_more_and_fewer_rounded_to_nearest(self):
        self.capture(self.inputs[:12])
        codes, scales = self.codes("compensated")
        scale = np.float32(abs(self.inputs[:12]).max()) / np.float32(16)
        rounded = quantize(self.inputs[:12], scale)[1].astype("f4")
        np.testing.assert_array_equal(HIF8[codes], HIF8[compensated(self.weight, scales, rounded, 24 / (4 * 12))])
        self.capture(self.inputs[:2])
        codes, _ = self.codes("compensated")
        self.assertIn("rounded to nearest: 2 rows of data are too few for 24 inputs", self.notes)
        np.testing.assert_array_equal(codes, self.codes("nearest")[0])

    def test_without_data_it_is_refused_before_the_run(self):
        command = [PROGRAM, "m", "-o", "out", "--recipe", "cast", "--set", "weights.rounding=compensated"]
        self.run_command(*command, code=2, says=("weights.rounding", "no data was given", "--data"))
        self.assertFalse(pathlib.Path("out").exists())


class ConvolutionCases(OnnxProgramCase):
    """Kernels are compensated by patches; groups by those of their own channels."""

    SHAPE = (4, 6, 9, 11)
    MOST = 256  # positions of a sample, spread over all

    def patches(self, x, groups, kernel, stride, pads, dilation):
        """[groups, positions, inputs], position by position."""
        x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        rows = []
        for sample in x:
            at = []
            for i in range(0, sample.shape[1] - reach[0] + 1, stride[0]):
                for j in range(0, sample.shape[2] - reach[1] + 1, stride[1]):
                    at.append(sample[:, i : i + reach[0] : dilation[0], j : j + reach[1] : dilation[1]].reshape(groups, -1))
            count = min(len(at), self.MOST)
            rows += [at[(2 * i + 1) * len(at) // (2 * count)] for i in range(count)]
        return np.array(rows).transpose(1, 0, 2)

    def check(self, outputs, groups, kernel, stride, pads, dilation=(1, 1)):
        weight = (RNG.standard_normal((outputs, self.SHAPE[1] // groups, *kernel)) / 3).astype("f4")
        x = RNG.standard_normal(self.SHAPE).astype("f4")
        x += 0.8 * np.roll(x, 1, 3)  # neighbours are alike, as in pictures
        np.save("x.npy", x)
        options = {"group": groups, "strides": list(stride), "pads": list(pads), "dilations": list(dilation)}
        conv = node("Conv", "x w", "y", "conv", **options)
        data = model(Graph([value("x", ["n", *self.SHAPE[1:]])], [value("y", None)], [conv], {"w": weight}))
        arguments = ("--set", "weights.rounding=compensated", "--recipe", "weight-only", "--data", "x.npy")
        report = self.quantize(data, *arguments)
        self.assertIn("rounded for the layer's output", report["layers"][0]["weight"]["notes"])
        decoded = Decoder(self.out / "model.onnx", HIF8)
        inputs = next(inputs for op, _, inputs, _ in decoded.nodes.values() if op == "DequantizeLinear")
        codes, scales = decoded.tensors[inputs[0]].reshape(outputs, -1), decoded.tensors[inputs[1]].reshape(outputs, 1)
        rows = self.patches(x, groups, kernel, stride, pads, dilation)
        each = outputs // groups
        for g in range(groups):
            part = slice(g * each, (g + 1) * each)
            few = rows.shape[2] / (4 * rows.shape[1])
            flat = weight.reshape(outputs, -1)[part]
            expected = compensated(flat, scales[part, 0], rows[g], float(np.clip(few, 0.1, 3)))
            np.testing.assert_array_equal(HIF8[codes[part]], HIF8[expected], f"group {g}")

    def test_a_kernel(self):
        self.check(8, 1, (3, 3), (2, 1), (1, 0, 2, 1))

    def test_groups(self):
        self.check(9, 3, (3, 2), (1, 1), (0, 0, 0, 0), (2, 1))

    def test_depthwise(self):
        self.check(12, 6, (3, 3), (1, 2), (1, 1, 1, 1))

    def test_more_positions_than_are_looked_at(self):
        self.SHAPE = (2, 4, 24, 19)
        self.check(8, 4, (3, 3), (1, 1), (1, 1, 1, 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
