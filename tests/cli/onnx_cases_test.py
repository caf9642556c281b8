"""Inputs that break quantizers, through the program: onnx_cases_test.py HIF8_CALIBRATE.

Models are made by onnx_emit.py, which shares no code with the project. Every case says which exit code is right and
what a person is told.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import numpy as np
from onnx_emit import Graph, external, message, model, node, value
from onnx_program import W, X, Y, OnnxProgramCase, matmul, weight
from program_case import PROGRAM

class Cases(OnnxProgramCase):
    def test_non_finite_values_are_left_out_and_counted(self):
        graph = Graph(X, Y, [node("Log", "x", "l"), node("MatMul", "l w", "y", "mm")], {"w": W})
        np.save("mixed.npy", np.array([[-1, 1, 2, 3]], "f4"))
        report = self.quantize(model(graph), source="mixed.npy", says=["'l': 1 NaN and 0 infinite of 4 values"])
        self.assertAlmostEqual(report["layers"][0]["activation"]["amax"], np.log(np.float32(3)), 6)
        np.save("negative.npy", -abs(weight(2, 4)))
        self.quantize(model(graph), source="negative.npy", code=3, says=["its input was never finite", "give data"])

    def test_arrays_in_other_orders(self):
        x = weight(5, 3, 4)
        graph = matmul(inputs=[value("x", ["n", 3, 4])])
        reports = []
        for array in (x, np.asfortranarray(x), x.astype(">f4"), np.asfortranarray(x.astype(">f4"))):
            np.save("a.npy", array)
            np.savez("a.npz", x=array)
            np.savez_compressed("c.npz", x=array)
            reports += [self.quantize(graph, "--batch", "2", source=name)["layers"] for name in ("a.npy", "a.npz", "c.npz")]
        for report in reports:
            self.assertEqual(report, reports[0])

    def test_dimensions_without_value_match_anything(self):
        for shape in (["n", 4], [None, 4], None):
            self.quantize(matmul(inputs=[value("x", shape)]))
        self.quantize(matmul(inputs=[value("x", [2, 5])]), code=3, says=["expected shape", "[2, 5]", "[6, 4]"])

    def test_memory_has_a_limit(self):
        large = matmul(weight(2048, 2048), [value("x", ["n", 2048])])
        np.save("wide.npy", weight(6, 2048))
        self.quantize(large, "--memory-limit", "24M", source="wide.npy", code=4,
                      says=["to stay within 24.0 MiB of memory, found", "--memory-limit"])
        free = self.quantize(large, source="wide.npy")
        bound = self.quantize(large, "--memory-limit", "512M", source="wide.npy")
        self.assertEqual(free["layers"], bound["layers"])

    def test_missing_inputs_are_named(self):
        pair = [value("x", ["n", 4]), value("past", ["n", 4])]
        graph = Graph(pair, Y, [node("Add", "x past", "s"), node("MatMul", "s w", "y", "mm")], {"w": W})
        np.savez("x.npz", x=weight(2, 4), other=weight(2, 4))
        self.quantize(model(graph), source="x.npz", code=3, says=["'past'", "x, other"])

    def test_empty_weights_and_tensors_stay(self):
        for shape in ((4, 0), (0, 3)):
            self.quantize(matmul(np.zeros(shape, "f4")), code=3, says=["its weight is empty"], source="random:1")
        nodes = [
            node("NonZero", "x", "i"), node("Transpose", "i", "t"), node("GatherND", "x t", "v"),
            node("Unsqueeze", "v axis", "u"), node("MatMul", "u w", "y", "mm"),
        ]  # fmt: skip
        data = model(Graph([value("x", [1, 4])], Y, nodes, {"w": weight(1, 3), "axis": np.array([1])}))
        os.mkdir("some")
        np.save("some/0.npy", np.zeros((1, 4), "f4"))
        np.save("some/1.npy", np.ones((1, 4), "f4"))
        self.quantize(data, source="some")
        self.quantize(data, source="some/0.npy", code=3, says=["never observed"])

    def test_bad_weights_are_named(self):
        for bad, name in ((np.nan, "NaN"), (np.inf, "an infinity"), (-np.inf, "an infinity")):
            array = W.copy()
            array[2, 1] = bad
            self.quantize(matmul(array), code=3, says=[f"found {name} in tensor 'w' at element 7"])
        array = W.copy()
        array[:, 1] = 0
        self.quantize(matmul(array))
        self.assertEqual(self.quantize(matmul(array * 0))["layers"][0]["weight"]["sqnr_db"], None)

    def test_names_of_any_kind(self):
        names = ["a b", "ü漢字", "a/../b", "", " ", "a\nb", '"q"', "x: y", "- z", "#h", "\x1b[31mred", "n" * 3000, b"\xff"]
        for name in names:
            with self.subTest(name=name):
                self.quantize(matmul(name=name))
                for args in (["--calibration", "out/calibration.yaml", "-o", "again", "--force"], ["--dry-run"]):
                    done = self.run_program("m.onnx", *args)
                    self.assertNotIn("\x1b", done.stdout + done.stderr)
                json.loads(self.run_program("m.onnx", "--dry-run", "--json").stdout)

    def test_names_in_messages_do_not_steer_the_terminal(self):
        done = self.run_program_on(matmul(name="\x1b[31mred"), "--keep", ".", code=3)
        self.assertIn("'\\u001b[31mred'", done.stderr)

    def test_attributes_that_the_engine_divides_by(self):
        image = [value("x", [1, 4, 5, 5])]
        for op, inputs, name, zero in (
            ("Conv", "h w", "strides", [0, 0]), ("Conv", "h w", "group", 0), ("ConvTranspose", "h w", "group", 0),
            ("MaxPool", "h", "strides", [1, 0]), ("AveragePool", "h", "strides", [0, 0]),
            ("LpPool", "h", "strides", [0, 0]), ("MaxPool", "h", "kernel_shape", [0, 0]),
        ):  # fmt: skip
            options = {"kernel_shape": [2, 2]} if op.endswith("Pool") else {}
            options[name] = zero
            nodes = [node("Conv", "x w", "h", "c"), node(op, inputs, "y", "bad", **options)]
            says = ["invalid graph", "'bad'", f"'{name}' below 1"]
            with self.subTest(op=op, name=name):
                self.quantize(model(Graph(image, Y, nodes, {"w": weight(4, 4, 3, 3)})), source="random:1", code=3, says=says)

    def test_external_data(self):
        os.mkdir("e")
        pathlib.Path("e/w.bin").write_bytes(W.tobytes())
        pathlib.Path("out.bin").write_bytes(W.tobytes())
        cases = [
            ({"location": "w.bin"}, 0, ""), ({"location": "w.bin", "offset": 0, "length": 48}, 0, ""),
            ({"location": "../out.bin"}, 3, "leads out of"), ({"location": str(self.folder / "out.bin")}, 3, "leads out of"),
            ({"location": "w.bin", "offset": 4}, 3, "has 48 bytes"), ({"location": "w.bin", "length": 96}, 3, "has 96 bytes"),
            ({"location": "w.bin", "offset": 2**63}, 3, "has 48 bytes"), ({"location": "w.bin", "offset": "a"}, 3, "not a number"),
            ({"location": "none.bin"}, 3, "was not found"), ({"location": ""}, 3, "missing"), ({"location": "."}, 3, "regular file"),
        ]  # fmt: skip
        for reference, code, says in cases:
            graph = Graph(X, Y, [node("MatMul", "x w", "y", "mm")], tensors=[external("w", (4, 3), **reference)])
            pathlib.Path("e/m.onnx").write_bytes(model(graph))
            with self.subTest(reference=reference):
                self.run_program("e/m.onnx", "--data", "x.npy", "-o", "out", "--force", code=code, says=[says])
        os.remove("e/w.bin")
        os.mkfifo("e/w.bin")
        pathlib.Path("e/m.onnx").write_bytes(
            model(Graph(X, Y, [node("MatMul", "x w", "y", "mm")], tensors=[external("w", (4, 3), "w.bin")]))
        )
        self.run_program("e/m.onnx", "--data", "x.npy", "-o", "out", "--force", code=3, says=["regular file"])

    def test_pipes_where_files_are_expected(self):
        pathlib.Path("m.onnx").write_bytes(matmul())
        for name in ("p.onnx", "p.npy", "p.npz", "p.png", "p.safetensors"):
            os.mkfifo(name)
            args = [name, "--data", "x.npy"] if name == "p.onnx" else ["m.onnx", "--data", name]
            self.run_program(*args, "-o", "out", code=3, says=["regular file"])

    def test_paths_that_cannot_be_looked_at(self):
        pathlib.Path("m.onnx").write_bytes(matmul())
        os.symlink("loop", "loop")
        self.run_program("loop", "--data", "x.npy", "-o", "out", code=3, says=["Too many levels"])
        self.run_program("m.onnx", "--data", "loop", "-o", "out", code=3, says=["Too many levels"])
        self.run_program("m.onnx", "--data", "x.npy", "-o", "loop", code=4, says=["Too many levels"])
        self.run_program("m.onnx", "--data", "x.npy", "-o", "o" * 300, code=4, says=["too long"])

    def test_a_link_to_the_output_folder_stays(self):
        pathlib.Path("m.onnx").write_bytes(matmul())
        os.mkdir("real")
        os.symlink("real", "link")
        self.run_program("m.onnx", "--data", "x.npy", "-o", "link")
        self.assertTrue(os.path.islink("link"))
        self.assertIn("report.json", os.listdir("real"))

    def test_outputs_never_replace_inputs(self):
        data = matmul()
        pathlib.Path("m.onnx").write_bytes(data)
        for option in ("--log-file", "--stats-out"):
            for path in ("m.onnx", "./m.onnx", "x.npy"):
                self.run_program("m.onnx", "--data", "x.npy", "-o", "out", option, path, code=2, says=["would overwrite"])
        self.assertEqual(pathlib.Path("m.onnx").read_bytes(), data)
        self.assertFalse(os.path.exists("out"))

    def test_signals_leave_nothing(self):
        count = 40
        weights = {f"w{i}": weight(256, 256) for i in range(count)}
        names = ["x", *(f"h{i}" for i in range(count - 1)), "y"]
        nodes = [node("MatMul", f"{names[i]} w{i}", names[i + 1], f"l{i}") for i in range(count)]
        pathlib.Path("m.onnx").write_bytes(model(Graph([value("x", ["n", 256])], Y, nodes, weights)))
        np.save("many.npy", weight(5000, 256))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before = set(os.listdir())
            run = subprocess.Popen(
                [PROGRAM, "m.onnx", "--data", "many.npy", "-o", "out"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            deadline = time.monotonic() + 60
            while set(os.listdir()) == before and time.monotonic() < deadline:
                time.sleep(0.01)  # until it has claimed its output
            run.send_signal(number)
            _, told = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 130, told)
            self.assertEqual(set(os.listdir()), before)

    def test_closed_streams_and_limits(self):
        pathlib.Path("m.onnx").write_bytes(matmul())
        command = f"{PROGRAM} m.onnx --data x.npy -o"
        shell = lambda text: subprocess.run(["bash", "-c", text], capture_output=True, check=False, timeout=60)
        self.assertEqual(shell(f"{command} a").returncode, 0)
        for number, closed in enumerate((">&-", "2>&-", "<&-", ">&- 2>&- <&-")):
            # The model is written all the same; a report that nobody can read is an error.
            code = 4 if closed.startswith(">&-") else 0
            self.assertEqual(shell(f"{command} b{number} {closed}").returncode, code, closed)
            written = [pathlib.Path(folder, "model.onnx").read_bytes() for folder in ("a", f"b{number}")]
            self.assertEqual(written[0], written[1], closed)
        done = shell(f"ulimit -f 1; {command} limited")
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"File too large", done.stderr)
        self.assertEqual([name for name in os.listdir() if "limited" in name], [])

    def test_concurrent_runs_on_one_output(self):
        pathlib.Path("m.onnx").write_bytes(matmul())
        run = [PROGRAM, "m.onnx", "--data", "x.npy", "-o", "out", "-q"]
        runs = [subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(4)]
        codes = []
        for process in runs:
            told = process.communicate(timeout=60)[1]
            codes.append(process.returncode)
            says = {0: b"", 2: b"the output already exists", 4: b"another run is writing this output"}
            self.assertIn(says[process.returncode], told)
        self.assertEqual(codes.count(0), 1)
        self.assertEqual(sorted(os.listdir("out")), [".hif8-files", "calibration.yaml", "model.onnx", "recipe.yaml", "report.json"])
        self.assertEqual([name for name in os.listdir() if name.startswith(".")], [])

    def test_layers_in_loops_and_branches(self):
        w = weight(4, 4)
        body = Graph(
            [value("i", [], "int64"), value("c", [], "bool"), value("v", None)],
            [value("c2", None, "bool"), value("v2", None)],
            [node("Identity", "c", "c2"), node("MatMul", "v w", "v2", "inner")],
        )
        loop = Graph(X, Y, [node("Loop", "t k x", "y", "loop", body=body)], {"t": np.array(3), "k": np.array(True), "w": w})
        report = self.quantize(model(loop))
        self.assertEqual([(l["name"], l["status"]) for l in report["layers"]], [("inner", "quantized")])
        branch = lambda n: Graph([], [value(f"o{n}", None)], [node("MatMul", "x w", f"o{n}", f"b{n}")])
        graph = Graph(
            X + [value("c", [], "bool")], Y, [node("If", "c", "y", then_branch=branch(1), else_branch=branch(2))], {"w": w}
        )
        np.savez("c.npz", x=weight(1, 4), c=np.array(True))
        report = self.quantize(model(graph), source="c.npz")
        status = {l["name"]: (l["status"], l["reason"]) for l in report["layers"]}
        self.assertEqual(status["b1"], ("quantized", ""))
        self.assertEqual(status["b2"][0], "kept")
        self.assertIn("no sample reached it", status["b2"][1])

    def test_settings_out_of_range(self):
        pathlib.Path("m.onnx").write_bytes(matmul())
        for args, says in (
            (["--threads", "100000"], "at most 1024"), (["--samples", "0"], "at least 1"),
            (["--activation-target", "1e38"], "beyond the largest value"), (["--percentile", "nan"], "at most 100"),
            (["--high-precision-layers", "1", "--set", "blocks=m"], "number in none"),
        ):  # fmt: skip
            self.run_program("m.onnx", "--data", "x.npy", "-o", "out", *args, code=2, says=[says])

    def test_damaged_models_are_errors(self):
        tensor = lambda dims, size, dtype=1: [(1, d) for d in dims] + [(2, dtype), (8, "w"), (9, b"\0" * size)]
        for dims, size in (([4, 3], 40), ([4, 3], 52), ([-4, 3], 48), ([2**40, 2**40], 48), ([2**62, 4, 12], 48)):
            graph = Graph(X, Y, [node("MatMul", "x w", "y", "mm")], tensors=[tensor(dims, size)])
            self.quantize(model(graph), code=3, says=["w:"])
        whole = matmul()
        for size in range(0, len(whole), 29):
            self.quantize(whole[:size], code=3)
        self.quantize(message([(1, 8), (8, [(2, 17)])]), code=3, says=["not an ONNX model"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
