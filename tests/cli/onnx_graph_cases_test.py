"""Graphs that break quantizers, through the program: onnx_graph_cases_test.py HIF8_CALIBRATE.

What a layer's input holds is computed here with numpy and compared with what the report says of it.
"""

import os
import pathlib
import shutil
import unittest

import numpy as np
from onnx_emit import Graph, Reference, external, function, message, model, node, value
from onnx_program import W, X, Y, OnnxProgramCase, matmul, weight


class GraphCases(OnnxProgramCase):
    def layers(self, report):
        return {layer["name"]: layer for layer in report["layers"]}

    def assert_inputs(self, report, **tensors):
        """Every named layer is quantized and saw an input of that largest magnitude."""
        layers = self.layers(report)
        for name, seen in tensors.items():
            self.assertEqual(layers[name]["status"], "quantized", layers[name]["reason"])
            amax = max(float(abs(x).max()) for x in seen if x.size)
            self.assertAlmostEqual(layers[name]["activation"]["amax"] / amax, 1, delta=1e-5, msg=name)
            self.assertGreater(layers[name]["output"]["sqnr_db"], 20)

    def test_omitted_inputs(self):
        first, second = weight(5, 3, 1, 1), weight(2, 5, 1, 1)
        nodes = [
            node("Conv", "x w1", "a", "c1"),
            node("Resize", "a - scales", "b", "resize", mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric"),
            node("Clip", "b - most", "c"), node("Conv", "c w2", "y", "c2"),
        ]  # fmt: skip
        weights = {"w1": first, "w2": second, "scales": np.array([1, 1, 2, 2], "f4"), "most": np.float32(0.4)}
        x = weight(3, 3, 4, 4)
        np.save("x.npy", x)
        report = self.quantize(model(Graph([value("x", ["n", 3, 4, 4])], Y, nodes, weights), opset=13))
        inner = np.minimum(np.einsum("oc,nchw->nohw", first[:, :, 0, 0], x), np.float32(0.4))
        self.assert_inputs(report, c1=[x], c2=[inner])

    def test_tables_of_angles_are_no_weights(self):
        angles = weight(16, 2)
        nodes = [
            node("MatMul", "x w", "q", "mm"),
            node("GroupQueryAttention", "q q q past past one two cos sin", "y k v", "attention", domain="com.microsoft"),
        ]  # fmt: skip
        one, two = np.zeros((1, 1), "i4"), np.ones((1,), "i4")
        weights = {"w": weight(4, 4), "cos": angles, "sin": angles, "one": one, "two": two}
        graph = Graph([value("x", [1, 1, 4]), value("past", [1, 1, "p", 4])], Y, nodes, weights)
        pathlib.Path("m.onnx").write_bytes(model(graph))
        told = self.run_program("m.onnx", "--dry-run", "--data", "random:1").stdout
        self.assertIn("mm", told)
        self.assertNotIn("attention", told.split("layers")[0])

    def test_a_past_of_no_length_at_first(self):
        nodes = [
            node("MatMul", "past wp", "p", "of_past"), node("Concat", "p x", "all", "join", axis=1),
            node("MatMul", "all w", "y", "mm"),
        ]  # fmt: skip
        past_weight = weight(4, 4)
        inputs = [value("x", [1, "s", 4]), value("past", [1, "p", 4])]
        data = model(Graph(inputs, Y, nodes, {"w": W, "wp": past_weight}))
        os.mkdir("steps")
        pasts, alls = [], []
        for step, length in enumerate((0, 3, 5)):
            x, past = weight(1, 2, 4), weight(1, length, 4)
            np.savez(f"steps/{step}.npz", x=x, past=past)
            pasts.append(past)
            alls.append(np.concatenate([past @ past_weight, x], axis=1))
        report = self.quantize(data, source="steps")
        self.assert_inputs(report, of_past=pasts, mm=alls)
        self.assertEqual(report["run"]["data"]["samples"], 3)

    def test_integers_in_the_middle(self):
        nodes = [
            node("Shape", "x", "shape"), node("Gather", "shape zero", "rows", axis=0),
            node("Concat", "rows rest", "to", axis=0), node("Reshape", "x to", "r"),
            node("Gather", "shape zero", "i"), node("Mul", "i i", "square"), node("MatMul", "r w", "m", "mm"),
            node("MatMul", "m w2", "y", "last"),
        ]  # fmt: skip
        weights = {"zero": np.array([0]), "rest": np.array([2, 2]), "w": weight(2, 3), "w2": weight(3, 2)}
        x = weight(6, 4)
        np.save("x.npy", x)
        report = self.quantize(model(Graph(X, Y + [value("square", None, "int64")], nodes, weights)))
        self.assertEqual(set(self.layers(report)), {"mm", "last"})
        self.assert_inputs(report, mm=[x], last=[x.reshape(-1, 2, 2) @ weights["w"]])

    def test_three_convolutions_share_a_bias(self):
        bias = weight(4)
        kernels = [weight(4, 4, 1, 1) for _ in range(3)]
        nodes = [node("Conv", f"{a} w{i} bias", b, name) for i, (a, b, name) in
                 enumerate((("x", "a", ""), ("a", "b", "twice"), ("b", "y", "twice")))]  # fmt: skip
        weights = {"bias": bias, **{f"w{i}": k for i, k in enumerate(kernels)}}
        x = weight(2, 4, 3, 3)
        np.save("x.npy", x)
        report = self.quantize(model(Graph([value("x", ["n", 4, 3, 3])], Y, nodes, weights)))
        names = [layer["name"] for layer in report["layers"]]
        self.assertEqual(names[1], "twice")
        self.assertEqual(len(set(names)), 3)
        seen, inputs = x, []
        for kernel in kernels:
            inputs.append([seen])
            seen = np.einsum("oc,nchw->nohw", kernel[:, :, 0, 0], seen) + bias[:, None, None]
        self.assert_inputs(report, **dict(zip(names, inputs)))
        self.assertEqual(pathlib.Path("out/model.onnx").read_bytes().count(bias.tobytes()), 1)

    def test_functions_of_the_model(self):
        linear = function("my", "linear", "a b", "out", [
            node("Gemm", "a b", "t", "gemm", alpha=Reference("factor", 1), transB=Reference("turned", 2)),
            node("Constant", "", "c", value=np.array(0.25, 'f4')), node("Add", "t c", "out"),
        ], defaults={"factor": 2.0})  # fmt: skip
        # Two calls of another function, an output that is an input, and a body that reads outside.
        branch = lambda name: Graph([], [value(name, None)], [node("MatMul", "h w2", name, "inner")])
        mlp = function("my", "mlp", "x w1 w2 flag", "y same", [
            node("linear", "x w1", "t", domain="my", turned=1), node("Relu", "t", "h"),
            node("If", "flag", "t2", then_branch=branch("p"), else_branch=branch("q")),
            node("linear", "t2 w2", "y", "second", domain="my", factor=0.5), node("Identity", "x", "same"),
        ], others=["my"])  # fmt: skip
        plain = function("my", "plain", "a", "a2", [node("Abs", "a", "a2")])
        w1, w2, x = weight(5, 4), weight(5, 5), weight(6, 4)
        np.savez("x.npz", x=x, t=weight(6, 5))
        nodes = [
            node("mlp", "x w1 w2 flag", "h same", "call", domain="my"), node("plain", "h", "g", domain="my"),
            node("Add", "g t", "y"),
        ]  # fmt: skip
        graph = Graph(X + [value("t", ["n", 5])], Y, nodes, {"w1": w1, "w2": w2, "flag": np.array(True)})
        report = self.quantize(model(graph, functions=[plain, linear, mlp]), source="x.npz")
        hidden = np.maximum(2 * x @ w1.T + np.float32(0.25), 0)
        layers = self.layers(report)
        self.assertEqual(len(layers), 4)
        used = {name: layer for name, layer in layers.items() if layer["status"] == "quantized"}
        self.assertEqual(len(used), 3, layers)  # of the two branches one is never taken
        taken = (set(used) - {"call/linear/gemm", "call/second/gemm"}).pop()
        self.assertTrue(taken.startswith("call/If/inner") or taken.startswith("call/inner"), taken)
        self.assert_inputs(report, **{"call/linear/gemm": [x], "call/second/gemm": [hidden @ w2], taken: [hidden]})
        self.assertGreater(report["network"]["outputs"][0]["sqnr_db"], 20)
        left = pathlib.Path("out/model.onnx").read_bytes()
        self.assertEqual((left.count(b"factor"), left.count(b"plain")), (0, 2))  # its call and itself

    def test_functions_that_stay(self):
        old = function("my", "old", "a b", "out", [node("MatMul", "a b", "out")], opset=13)
        nodes = [node("old", "x w", "h", "call", domain="my"), node("MatMul", "h v", "y", "mm")]
        graph = Graph(X, Y, nodes, {"w": W, "v": weight(3, 2)})
        report = self.quantize(model(graph, functions=[old]))
        layers = self.layers(report)
        self.assertEqual(layers["call"]["status"], "kept")
        self.assertIn("operator set 13 in a model of 17", layers["call"]["reason"])
        self.assertEqual(layers["mm"]["status"], "quantized")
        again = function("my", "f", "a b", "out", [node("f", "a b", "t", domain="my"), node("MatMul", "t b", "out")], others=["my"])
        graph = Graph(X, Y, [node("f", "x w", "y", domain="my")], {"w": weight(4, 4)})
        self.quantize(model(graph, functions=[again]), code=3, says=["'f' calls itself"])
        bombs = [function("my", "f0", "a b", "out", [node("MatMul", "a b", "out")])]
        for i in range(1, 40):
            calls = [node(f"f{i - 1}", "a b", "t", domain="my"), node(f"f{i - 1}", "t b", "out", domain="my")]
            bombs.append(function("my", f"f{i}", "a b", "out", calls, others=["my"]))
        graph = Graph(X, Y, [node("f39", "x w", "y", domain="my")], {"w": weight(4, 4)})
        self.quantize(model(graph, functions=bombs), code=3, says=["more than 100000 times"])

    def test_bodies_of_loops_and_scans(self):
        w = weight(4, 4)
        body = Graph(
            [value("i", [], "int64"), value("c", [], "bool"), value("v", None)],
            [value("c2", None, "bool"), value("v2", None)],
            [node("Identity", "c", "c2"), node("MatMul", "v w", "v2", "inner")],
        )
        x = weight(6, 4)
        np.save("x.npy", x)
        limits = {"t": np.array(3), "k": np.array(True), "w": w}
        report = self.quantize(model(Graph(X, Y, [node("Loop", "t k x", "y", "loop", body=body)], limits)))
        self.assert_inputs(report, inner=[x, x @ w, x @ w @ w])
        # The body holds its own weight this time.
        body = Graph(
            [value("state", [4]), value("row", [4])], [value("next", [4]), value("sum", [4])],
            [node("MatMul", "state w", "h", "inner"), node("Add", "h row", "next"), node("Identity", "next", "sum")],
            {"w": w},
        )  # fmt: skip
        scan = node("Scan", "start x", "last y", "scan", body=body, num_scan_inputs=1)
        start = weight(4)
        report = self.quantize(model(Graph([value("x", [6, 4])], Y, [scan], {"start": start})))
        states = [start]
        for row in x:
            states.append(states[-1] @ w + row)
        self.assert_inputs(report, inner=states[:-1])
        self.assertGreater(report["network"]["outputs"][0]["sqnr_db"], 20)

    def test_model_data_and_result_in_different_folders(self):
        for folder in ("model", "data", "work", "elsewhere"):
            os.mkdir(folder)
        pathlib.Path("model/w.bin").write_bytes(W.tobytes())
        kept = weight(3, 2)
        pathlib.Path("model/kept.bin").write_bytes(kept.tobytes())
        nodes = [node("MatMul", "x w", "h", "mm"), node("MatMul", "h k", "y", "head")]
        tensors = [external("w", (4, 3), "w.bin"), external("k", (3, 2), "kept.bin")]
        pathlib.Path("model/m.onnx").write_bytes(model(Graph(X, Y, nodes, tensors=tensors)))
        shutil.move("x.npy", "data/x.npy")
        os.chdir("work")
        self.run_program("../model/m.onnx", "--data", "../data/x.npy", "-o", "../elsewhere/deep/out", "--keep", "head")
        os.chdir("..")
        self.assertEqual(sorted(os.listdir("elsewhere/deep/out")), [".hif8-files", "calibration.yaml", "model.onnx", "recipe.yaml", "report.json"])
        self.assertEqual((os.listdir("work"), sorted(os.listdir("model"))), ([], ["kept.bin", "m.onnx", "w.bin"]))
        shutil.rmtree("model")
        shutil.move("elsewhere/deep/out/model.onnx", "moved.onnx")
        # It needs nothing but itself: what was kept can still be quantized.
        self.run_program("moved.onnx", "--data", "data/x.npy", "-o", "again", "--only", "head")

    def test_shapes_behind_operators_that_are_not_known(self):
        nodes = [
            node("Gelu", "x", "g", domain="com.microsoft"), node("Shape", "g", "s"), node("Reshape", "x s", "r"),
            node("MatMul", "r w", "y", "mm"),
        ]  # fmt: skip
        imports = message([(8, [(1, "com.microsoft"), (2, 1)])])
        report = self.quantize(model(Graph(X, Y, nodes, {"w": W})) + imports)
        self.assertGreater(report["network"]["outputs"][0]["sqnr_db"], 20)
        # The same inside of a body and of a function that stays.
        inner = [node("Gelu", "x", "g", domain="com.microsoft"), node("Shape", "g", "s"), node("Reshape", "x s", "r")]
        branch = lambda: Graph([], [value("r", None)], inner)
        nodes = [
            node("If", "yes", "i", then_branch=branch(), else_branch=branch()), node("Same", "i", "j", "call", "own"),
            node("MatMul", "j w", "y", "mm"),
        ]  # fmt: skip
        same = function("own", "Same", "x", "r", inner, others=["com.microsoft"])
        weights = {"w": W, "yes": np.array(True)}
        report = self.quantize(model(Graph(X, Y, nodes, weights), functions=[same]) + imports)
        self.assertGreater(report["network"]["outputs"][0]["sqnr_db"], 20)

    def test_nodes_in_any_order(self):
        body = lambda: Graph([], [value("b", None)], [node("Tanh", "e", "b"), node("Neg", "h", "e")])
        nodes = [
            node("MatMul", "c w", "h", "first"), node("MatMul", "t h", "p", "product"), node("Transpose", "h", "t"),
            node("MatMul", "b v", "m", "last"), node("If", "yes", "b", then_branch=body(), else_branch=body()),
            node("Add", "m s", "y"), node("ReduceSum", "p", "s", keepdims=0), node("Cast", "x", "c", to=1),
        ]  # fmt: skip
        weights = {"w": W, "v": weight(3, 3), "yes": np.array(True)}
        graph = Graph([value("x", ["n", 4], "float64")], Y, nodes, weights)
        sorted_nodes = Graph(graph.inputs, Y, [nodes[i] for i in (7, 0, 2, 1, 4, 3, 6, 5)], weights)
        layers = []
        for order in (graph, sorted_nodes):
            report = self.quantize(model(order), "--set", "attention=true")
            layers.append({layer["name"]: layer for layer in report["layers"]})
            self.assertEqual(report["coverage"]["macs"], 1)
        self.assertEqual(layers[0], layers[1])
        # Nodes in a circle are told of, wherever they stand.
        circle = [node("Add", "x b", "a"), node("Add", "a x", "b"), node("MatMul", "a w", "y", "mm")]
        self.quantize(model(Graph(X, Y, circle, {"w": W})), code=3, says=["in a circle"])

    def test_fixed_batches_are_filled(self):
        data = matmul(inputs=[value("x", [2, 4])])
        np.save("odd.npy", weight(5, 4))
        self.quantize(data, source="x.npy")
        self.quantize(data, source="odd.npy", code=3, says=["--drop-last"])
        self.quantize(data, "--drop-last", source="odd.npy", says=["4 of 5"])

    def test_non_finite_samples_do_not_hide_the_others(self):
        x = weight(6, 4)
        good = self.quantize(matmul(), source="x.npy")
        for bad in (np.inf, -np.inf, np.nan):
            x[2, 1] = bad
            np.save("bad.npy", x)
            report = self.quantize(matmul(), source="bad.npy", says=["'y': 3 of 18 values were not finite"])
            layer = report["layers"][0]
            for operand, count in (("activation", "1 of 24"), ("output", "3 of 18"), ("accumulated", "3 of 18")):
                self.assertGreater(layer[operand]["sqnr_db"], 20)
                self.assertTrue(layer[operand]["notes"][0].startswith(count), layer[operand]["notes"])
            self.assertGreater(report["network"]["outputs"][0]["sqnr_db"], 20)
            self.assertIn("3 of 18", " ".join(report["run"]["warnings"]))
        self.assertEqual((good["layers"][0]["output"]["notes"], good["run"]["warnings"]), ([], []))

    def test_clipping_to_the_target(self):
        x = np.linspace(-1, 1, 24, dtype="f4").reshape(6, 4)
        x[0, 0] = -100
        np.save("x.npy", x)
        percentile = ["--activation-scale", "percentile", "--percentile", "90", "--activation-target", "16"]
        errors = {}
        for clip in ("false", "true"):
            report = self.quantize(matmul(), *percentile, "--set", f"activations.clip={clip}")
            errors[clip] = report["layers"][0]["activation"]
        # HiF8 has room above the target: only the clipped value is far off.
        self.assertLess(errors["false"]["max_abs_error"], 100 / 8)  # two significant bits
        reference = errors["true"]["scale"] * 16
        self.assertAlmostEqual(errors["true"]["max_abs_error"], 100 - reference, delta=0.05)
        self.assertEqual(pathlib.Path("out/model.onnx").read_bytes().count(b"x_clipped"), 4)
        self.quantize(matmul(), "--calibration", "out/calibration.yaml", "--recipe", "out/recipe.yaml")
        self.assertEqual(pathlib.Path("out/model.onnx").read_bytes().count(b"x_clipped"), 4)


if __name__ == "__main__":
    unittest.main(argv=["onnx_graph_cases_test.py"])
