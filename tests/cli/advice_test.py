"""Feeds the advice of hif8-report back to hif8-calibrate, line by line: advice_test.py BIN_DIR ROOT."""

import json
import pathlib
import shlex
import sys
import unittest

import numpy as np
from onnx_emit import Graph, model, node, value
from pair_case import MODELS, RNG, PairCase, onnx_model
from plain_files import write_ids

# A rule of weights that formats whose scales follow from the largest magnitude do not take.
RULES = "version: 1\nweights: {rule: mse}\nactivations: {rule: percentile}\n"


def shared_input():
    """Two layers that read one tensor, and one behind them."""
    weights = {name: (RNG.standard_normal((48, 48)) * 0.2).astype("f4") for name in ("w0", "w1", "w2")}
    nodes = [node("MatMul", "x w0", "a", "it's"), node("MatMul", "x w1", "b", "second"), node("Add", "a b", "c"),
             node("MatMul", "c w2", "y", "third")]  # fmt: skip
    return model(Graph([value("x", ["n", 48])], [value("y", None)], nodes, weights))


class FedBack(PairCase):
    def setUp(self):
        super().setUp()
        values = RNG.standard_normal((8, 48)).astype("f4")
        values[:, 3] *= 300
        np.save(self.folder / "x.npy", values)
        write_ids(self.folder / "ids.npy", [[5, 9, 2, 7, 1, 3, 8, 4]] * 2)

    def run_once(self, source, recipe, *args):
        (self.folder / "r.yaml").write_text(recipe)
        data = "ids.npy" if pathlib.Path(source).is_dir() else "x.npy"
        return self.run_program("hif8-calibrate", source, "--data", data, "-o", "out", "--force", "-q",
                                "--recipe", "r.yaml", *args)  # fmt: skip

    def advice(self, source, recipe, compare="all"):
        self.run_once(source, recipe, "--compare", compare)
        done = self.run_program("hif8-report", "out", "--advise", "--json", "--top", "0")
        return json.loads(done.stdout)["advice"]

    def accept(self, source, recipe, entry, *args):
        """A run with the advice and nothing else."""
        if entry["how"].startswith("- "):
            self.run_once(source, recipe + "overrides:\n" + entry["how"] + "\n", *args)
        else:
            self.run_once(source, recipe, *shlex.split(entry["how"]), *args)

    def check(self, source, recipe, *formats, compare="all"):
        """Every line makes a plan; a line for each operand and format also makes what it promised."""
        advice, tried = self.advice(source, recipe, compare), set()
        self.assertLessEqual(set(formats), {entry["better"]["format"] for entry in advice})
        for entry in advice:
            self.accept(source, recipe, entry, "--dry-run")
            kind = entry["operand"], entry["better"]["format"], entry["layer"] == ""
            if kind in tried or entry["operand"] in "kv":
                continue
            tried.add(kind)
            self.accept(source, recipe, entry)
            self.expect(entry)

    def expect(self, entry):
        layers = {x["name"]: x for x in json.loads((self.folder / "out" / "report.json").read_text())["layers"]}
        names = entry["layer"].split(", ") if entry["layer"] else [n for n, x in layers.items() if x["status"] == "quantized"]
        operands = {"output": ["weight", "activation"]}.get(entry["operand"], [entry["operand"]])
        found = []
        for name in names:
            for operand in operands:
                if layers[name][operand]:
                    self.assertEqual(layers[name][operand]["format"], entry["better"]["format"], entry)
            if layers[name][entry["operand"]]:
                found.append(layers[name][entry["operand"]]["sqnr_db"])
        if entry["operand"] == "weight":  # nothing else has an influence
            self.assertAlmostEqual(np.mean(found), entry["better"]["sqnr_db"], places=3, msg=entry)

    def test_formats_with_scales_of_their_own(self):
        (self.folder / "m.onnx").write_bytes(onnx_model())
        self.check("m.onnx", RULES, "mxfp8", compare="mxfp8")
        self.check("m.onnx", RULES, "fp8_e4m3_block", compare="fp8_e4m3_block")
        self.check("m.onnx", RULES)

    def test_layers_that_share_an_input(self):
        (self.folder / "m.onnx").write_bytes(shared_input())
        other = "{format: fp8_e4m3}"  # so that nothing is good for all
        recipe = RULES + "overrides:\n- {match: third, weights: %s, activations: %s}\n" % (other, other)
        advice = self.advice("m.onnx", recipe)
        for operand in ("activation", "output"):
            self.assertIn("it's, second", {entry["layer"] for entry in advice if entry["operand"] == operand})
        for entry in advice:
            self.run_once("m.onnx", recipe + entry["how"] + "\n", "--dry-run")

    def test_checkpoints(self):
        for name in ("random-llama", "random-qwen3-moe"):
            with self.subTest(name):
                recipe = RULES + "kv_cache: {rule: percentile}\n"
                self.check(MODELS / name, recipe)
                self.run_once(MODELS / name, recipe, "--compare", "all")
                rows = json.loads((self.folder / "out" / "report.json").read_text())["comparisons"]
                cached = {row["format"] for row in rows if row["operand"] in "kv"}
                self.assertEqual(cached, {"hif8", "fp8_e4m3", "fp8_e5m2", "int8"})

    def test_a_rule_that_some_layers_have(self):
        """No flag for all layers helps where an override has a rule that the format does not take."""
        (self.folder / "m.onnx").write_bytes(onnx_model())
        recipe = "version: 1\noverrides:\n- {match: second, weights: {rule: mse}, activations: {rule: mse}}\n"
        advice = self.advice("m.onnx", recipe, "mxfp8")
        self.assertIn("third", {entry["layer"] for entry in advice})
        self.assertNotIn("", {entry["layer"] for entry in advice})
        for entry in advice:
            self.run_once("m.onnx", recipe + entry["how"] + "\n", "--dry-run")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
