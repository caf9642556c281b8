"""What the system takes away: system_limits_test.py BIN FAULT_LIBRARY TESTS_DIR.

Threads that cannot be started, and files that get shorter while they are mapped (see fault.c).
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy as np

BIN, LIBRARY, TESTS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(TESTS / "cli"))
sys.argv[1:] = [str(BIN / "hif8-calibrate")]
from onnx_emit import Graph, external, model, node, value  # noqa: E402
from program_case import FolderCase  # noqa: E402

CHECKPOINT = TESTS / "data" / "models" / "random-llama"
SHARD = "model-00001-of-00002.safetensors"


class LimitCase(FolderCase):
    """A checkpoint in model/, a network with its weight in another file in net/, and a run on each by name."""

    def setUp(self):
        super().setUp()
        self.folder = self.folder.resolve()
        self.enter_folder()
        shutil.copytree(CHECKPOINT, "model")
        pathlib.Path("net").mkdir()
        rng = np.random.default_rng(3)
        (rng.standard_normal((256, 64)) * 0.1).astype("f4").tofile("net/w.bin")
        np.save("x.npy", rng.standard_normal((6, 256)).astype("f4"))
        graph = Graph([value("x", ["n", 256])], [value("y", None)], [node("MatMul", "x w", "y", "mm")],
                      tensors=[external("w", (256, 64), "w.bin")])  # fmt: skip
        pathlib.Path("net/m.onnx").write_bytes(model(graph))
        self.runs = {
            "checkpoint": ("model", "--recipe", "cast", "-o", "out"),
            "network": ("net/m.onnx", "--data", "x.npy", "-o", "out"),
        }
        self.work = self.folder / ".out.unfinished"

    def run_under(self, kind, *args, **environment):
        """One run without an earlier output, with the environment's faults; its exit code may be any."""
        for place in ("out", self.work):
            shutil.rmtree(place, ignore_errors=True)
        faulty = dict(os.environ, LD_PRELOAD=str(LIBRARY), HIF8_FAULT_BELOW=str(self.work), **environment)
        command = [BIN / "hif8-calibrate", *self.runs[kind], *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=faulty)

    def result(self):
        return {p.name: p.read_bytes() for p in pathlib.Path("out").iterdir() if p.name != "report.json"}


class ThreadsTest(LimitCase):
    def test_a_system_that_gives_few_threads(self):
        for kind in self.runs:
            done = self.run_under(kind, "--threads", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            expected = self.result()
            codes = {}
            for most in (0, 1, 2, 3, 12):
                with self.subTest(kind=kind, most=most):
                    done = self.run_under(kind, "--threads", "64", HIF8_FAULT_THREADS=str(most))
                    codes[most] = done.returncode
                    self.assertIn(done.returncode, (0, 4), done.stderr)
                    if done.returncode == 0:
                        self.assertEqual(self.result(), expected)
                    else:
                        self.assertIn("error: the system gives no more threads\n  hint: ", done.stderr)
                        self.assertFalse(os.path.exists("out"))
            # Both kinds need a thread beside the first, and none needs twelve.
            self.assertEqual((codes[0], codes[12]), (4, 0))


class ShrinkingFileTest(LimitCase):
    def calls(self, kind):
        """What a run does to the files of its output, in this order, one thread's work."""
        trace = self.folder / "trace"
        trace.unlink(missing_ok=True)
        done = self.run_under(kind, "--threads", "1", HIF8_FAULT_TRACE=str(trace))
        self.assertEqual(done.returncode, 0, done.stderr)
        return trace.read_text().splitlines()

    def expect_loss(self, kind, call, file):
        """The file gets shorter just before the call: the run names it and leaves no output."""
        at = str(1 + self.calls(kind).index(call))
        mine = self.work in file.parents
        whole = (pathlib.Path("out", file.name) if mine else file).read_bytes()
        for size in (0, len(whole) // 3, len(whole) - 1):
            with self.subTest(kind=kind, call=call, size=size):
                done = self.run_under(kind, "--threads", "1", HIF8_FAULT="shrink", HIF8_FAULT_AT=at,
                                      HIF8_FAULT_FILE=str(file), HIF8_FAULT_SIZE=str(size))  # fmt: skip
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertRegex(done.stderr, rf"error: \S*/{file.name}: the file (got shorter|was changed)")
                self.assertIn("\n  hint: ", done.stderr)
                self.assertFalse(os.path.exists("out"))
                if not mine:
                    self.assertEqual(file.read_bytes(), whole[:size])
                    file.write_bytes(whole)

    def test_a_checkpoint(self):
        self.expect_loss("checkpoint", f"write {self.work}/new/{SHARD}.partial", self.folder / "model" / SHARD)

    def test_a_network_s_weight(self):
        self.expect_loss("network", f"write {self.work}/new/model.onnx", self.folder / "net" / "w.bin")

    def test_a_written_shard(self):
        for call in ("write", "open"):
            after = f"{call} {self.work}/new/{SHARD.replace('00001-of', '00002-of')}.partial"
            self.expect_loss("checkpoint", after, self.work / "new" / SHARD)

    def test_a_written_network(self):
        self.expect_loss("network", f"fsync {self.work}/new/model.onnx", self.work / "new" / "model.onnx")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
