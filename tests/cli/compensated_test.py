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
from plain_files import floats, read_file, write_file
from plain_formats import hif8, nearest
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
