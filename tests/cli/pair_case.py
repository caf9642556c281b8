"""What the tests of hif8-report on pairs of models share: arguments BIN_DIR ROOT, programs, reports, an ONNX model."""

import json
import pathlib
import sys

import numpy as np
from onnx_emit import Graph, model, node, value
from program_case import FolderCase

BIN, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
MODELS = ROOT / "tests" / "data" / "models"
RNG = np.random.default_rng(11)


def onnx_model():
    weights = {f"w{i}": (RNG.standard_normal((48, 48)) * 0.2).astype("f4") for i in range(3)}
    weights["bias"] = RNG.standard_normal(48).astype("f4")
    nodes = [
        node("MatMul", "x w0", "a", "first"), node("Add", "a bias", "b", "add"), node("Relu", "b", "c", "relu"),
        node("MatMul", "c w1", "d", "second"), node("Relu", "d", "e", "relu2"), node("MatMul", "e w2", "y", "third"),
    ]  # fmt: skip
    return model(Graph([value("x", ["n", 48])], [value("y", None)], nodes, weights))


class PairCase(FolderCase):
    def run_program(self, program, *args, code=0):
        return self.run_command(BIN / program, *args, code=code, timeout=120, cwd=self.folder)

    def report(self, original, quantized, *args, code=0):
        """The report, which must keep the schema."""
        done = self.run_program("hif8-report", original, quantized, "--to", "json", "-q", *args, code=code)
        path = self.folder / "pair.json"
        path.write_text(done.stdout)
        validate = [ROOT / "tests/report/validate.py", ROOT / "docs/report.schema.json"]
        self.run_command(sys.executable, *validate, path)
        return json.loads(done.stdout), done.stderr

    def expect_found(self, original, quantized, layer, tensor, *parts, below=20):
        """The planted error is the one warning, its layer the only one that is bad, and a gate sees it."""
        report, _ = self.report(original, quantized)
        (warning,) = report["run"]["warnings"]
        for part in (tensor + ": ", *parts):
            self.assertIn(part, warning)
        bad = [x["name"] for x in report["layers"] if x["weight"] and x["weight"]["sqnr_db"] < below]
        self.assertEqual(bad, [layer])
        _, told = self.report(original, quantized, "--fail-if", f"weight_sqnr<{below}", code=1)
        self.assertIn("failed for 1 of", told)
        self.assertIn(layer, told)
        text = self.run_program("hif8-report", original, quantized).stdout
        self.assertTrue(text.splitlines()[1].startswith(layer), text)
        self.assertIn("warning: " + warning, text)
        return report
