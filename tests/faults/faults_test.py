"""What a run leaves when one of its system calls fails: faults_test.py BIN FAULT_LIBRARY TESTS_DIR [--every].

A library that is loaded before all others (fault.c) kills the program at its N-th call that changes files, or lets that
call fail or be cut short. After each fault the output is the old one, the new one or absent; the same command then gives
the bytes of a run without faults; nothing else beside the output has changed, and nothing stays there. Without --every a
sample of the calls is tried, one for each kind of fault, spread over the whole run.
"""

import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np

BIN, LIBRARY, TESTS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
EVERY = "--every" in sys.argv
sys.path.insert(0, str(TESTS / "cli"))
sys.argv[1:] = [str(BIN / "hif8-calibrate")]
from onnx_program import matmul  # noqa: E402
from plain_files import read_file, write_file  # noqa: E402

MODEL = TESTS / "data" / "models" / "random-llama"
FAULTS = {
    "kill": "kill", "short": "short", "ENOSPC": str(errno.ENOSPC), "EIO": str(errno.EIO), "EINTR": str(errno.EINTR),
}  # fmt: skip


def contents(folder):
    """Every file's bytes by name, links as what they say; of a report all but its run; nothing of unfinished work."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith(".out.unfinished/"):
            continue
        if path.is_symlink():
            files[name] = os.readlink(path)
        elif path.is_dir():
            files[name] = "folder"
        elif path.name == "report.json":
            report = json.loads(path.read_text())
            del report["run"]
            files[name] = json.dumps(report)
        else:
            files[name] = path.read_bytes()
    return files


def split(folder, count):
    """The checkpoint in several files, as large ones are."""
    shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.npy", "*.npz", "*.index.json"))
    tensors = {}
    for path in sorted(MODEL.glob("model*.safetensors")):
        tensors.update(read_file(path)[0])
    names = sorted(tensors)
    weight_map = {}
    for i in range(count):
        file = f"model-{i + 1:05}-of-{count:05}.safetensors"
        mine = names[i * len(names) // count : (i + 1) * len(names) // count]
        write_file(folder / file, {name: tensors[name] for name in mine}, {"format": "pt"})
        weight_map.update(dict.fromkeys(mine, file))
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


class FaultsTest(unittest.TestCase):
    """Each case runs in self.place/work beside files of somebody else; inputs stand in self.place/inputs."""

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp()).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.place)
        inputs = cls.place / "inputs"
        inputs.mkdir()
        (inputs / "m.onnx").write_bytes(matmul())
        np.save(inputs / "x.npy", np.random.default_rng(1).standard_normal((6, 4)).astype("f4"))
        split(inputs / "model", 3)
        cls.inputs = inputs
        for k in (1, 2):
            cls.run_plain(inputs / "model", "-o", inputs / f"part{k}", "--recipe", "cast", "--shards", f"{k}/2")
        cls.run_plain(inputs / "m.onnx", "--data", inputs / "x.npy", "--stats-out", inputs / "x.stats")
        cls.run_plain(inputs / "m.onnx", "--data", inputs / "x.npy", "-o", inputs / "result")
        cls.before = contents(inputs)

    @classmethod
    def run_plain(cls, *args, program="hif8-calibrate", **environment):
        arguments = [str(argument) for argument in args]
        if program == "hif8-calibrate" and arguments[0] != "merge":
            arguments += ["--threads", "1"]
        return subprocess.run(
            [BIN / program, *arguments], capture_output=True, text=True, check=False, timeout=120,
            env=dict(os.environ, **environment),
        )  # fmt: skip

    def setUp(self):
        self.work = self.place / "work"
        self.out = self.work / "out"

    unfinished = None  # what a killed run left

    def prepare(self, old):
        """A folder with files of somebody else, links to them, and perhaps an earlier output."""
        shutil.rmtree(self.work, ignore_errors=True)
        canary = self.work / "others"
        canary.mkdir(parents=True)
        (canary / "letter.txt").write_text("not yours")
        (canary / "deep").mkdir()
        (canary / "deep" / "model.onnx").write_text("nor this")
        (self.work / "link").symlink_to("others")
        (self.work / ".others.unfinished").symlink_to("others")
        (self.work / ".out.tmp-1").mkdir()
        (self.work / ".out.tmp-1" / "diary").write_text("nor this one")
        self.foreign = contents(self.work)
        if self.unfinished is not None:
            shutil.copytree(self.unfinished, self.work / ".out.unfinished")
        if old is not None:
            if old.is_dir():
                shutil.copytree(old, self.out)
            else:
                shutil.copy(old, self.out)

    def output(self):
        if self.out.is_dir():
            return contents(self.out)
        return self.out.read_bytes() if self.out.exists() else None

    def expect_others_untouched(self):
        here = contents(self.work)
        for name, content in self.foreign.items():
            self.assertEqual(here.get(name), content, name)
        mine = {name.split("/")[0] for name in here if name not in self.foreign}
        self.assertLessEqual(mine, {"out", ".out.unfinished"})
        return mine

    def attempts(self, count):
        """Which fault at which call."""
        kinds = list(FAULTS)
        if EVERY:
            return [(kind, at) for kind in kinds for at in range(1, count + 1)]
        offset = zlib.crc32(self.id().encode())  # every case begins with other calls
        return [(kind, 1 + (offset + k * count // len(kinds)) % count) for k, kind in enumerate(kinds)]

    def check(self, *args, program="hif8-calibrate", old=None, **environment):
        trace = self.place / "trace"
        unfinished, self.unfinished = self.unfinished, None
        self.prepare(None)
        done = self.run_plain(*args, program=program)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        new = self.output()
        self.unfinished = unfinished
        self.prepare(old)
        before = self.output()
        self.assertNotEqual(before, new)
        more = ["--force"] if old is not None and program == "hif8-calibrate" else []
        trace.unlink(missing_ok=True)
        environment.update(LD_PRELOAD=str(LIBRARY), HIF8_FAULT_BELOW=str(self.work))
        done = self.run_plain(*args, *more, program=program, HIF8_FAULT_TRACE=str(trace), **environment)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        calls = trace.read_text().splitlines()
        self.assertGreater(len(calls), 5)
        for kind, at in self.attempts(len(calls)):
            with self.subTest(kind=kind, at=at, call=calls[at - 1], of=len(calls)):
                self.prepare(old)
                faulty = {"HIF8_FAULT": FAULTS[kind], "HIF8_FAULT_AT": str(at), **environment}
                done = self.run_plain(*args, *more, program=program, **faulty)
                allowed = {"kill": (-signal.SIGKILL,), "short": (0,)}.get(kind, (0, 4))
                self.assertIn(done.returncode, allowed, done.stderr[-2000:])
                found = self.output()
                # Where names cannot be exchanged, a kill may leave none until the next run.
                states = [new, before] + ([None] if "HIF8_FAULT_NO_EXCHANGE" in environment else [])
                self.assertTrue(any(found == state for state in states), "neither old nor new")
                if done.returncode == 0:
                    self.assertEqual(found, new)
                self.expect_others_untouched()
                again = []
                if program == "hif8-calibrate" and (found is not None or old is not None):
                    again = ["--force"]
                    self.expect_refusal(args, found, before)
                done = self.run_plain(*args, *again, program=program)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertEqual(self.output(), new)
                self.assertEqual(self.expect_others_untouched(), {"out"})
        self.assertEqual(contents(self.inputs), self.before)

    def expect_refusal(self, args, found, before):
        """A run without --force leaves the output or puts the earlier one back; nothing else stays of a run that had
        begun to replace it."""
        done = self.run_plain(*args)
        self.assertEqual(done.returncode, 2, done.stderr[-2000:])
        self.assertIn("the output already exists", done.stderr)
        self.assertEqual(self.output(), before if found is None else found)
        mine = self.expect_others_untouched()
        if found != before:
            self.assertEqual(mine, {"out"})

    def onnx(self):
        return self.inputs / "m.onnx", "--data", self.inputs / "x.npy", "-o", self.out

    def checkpoint(self):
        return self.inputs / "model", "--recipe", "cast", "-o", self.out

    def other_result(self):
        """A result of the same program with another recipe."""
        folder = self.place / "other"
        if not folder.exists():
            done = self.run_plain(self.inputs / "model", "--recipe", "cast", "--set", "weights.power_of_two=true", "-o",
                                  folder)
            self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def test_onnx_anew(self):
        self.check(*self.onnx())

    def test_onnx_replaced(self):
        self.check(*self.onnx(), old=self.other_result())

    def test_onnx_replaced_where_names_cannot_be_exchanged(self):
        self.check(*self.onnx(), old=self.other_result(), HIF8_FAULT_NO_EXCHANGE="1")

    def test_checkpoint_anew(self):
        self.check(*self.checkpoint())

    def test_checkpoint_resumed(self):
        self.prepare(None)
        at = 0
        while len(list(self.work.glob(".out.unfinished/new/model-*.safetensors"))) < 2:
            self.prepare(None)
            at += 4
            killed = {"HIF8_FAULT": "kill", "HIF8_FAULT_AT": str(at), "LD_PRELOAD": str(LIBRARY),
                      "HIF8_FAULT_BELOW": str(self.work)}
            done = self.run_plain(*self.checkpoint(), **killed)
            self.assertEqual(done.returncode, -signal.SIGKILL)
        self.unfinished = self.place / "unfinished"
        shutil.copytree(self.work / ".out.unfinished", self.unfinished)
        self.check(*self.checkpoint())

    def test_checkpoint_replaced(self):
        self.check(*self.checkpoint(), old=self.other_result())

    def test_part(self):
        self.check(*self.checkpoint(), "--shards", "1/2")

    def test_merged_parts(self):
        self.check("merge", self.inputs / "part1", self.inputs / "part2", "-o", self.out)

    def test_merged_parts_replace(self):
        self.check("merge", self.inputs / "part1", self.inputs / "part2", "-o", self.out, old=self.other_result())

    def test_statistics(self):
        self.check("merge", self.inputs / "x.stats", "-o", self.out, old=self.inputs / "x.npy")

    def test_report(self):
        self.check(self.inputs / "result", "--to", "csv", "-o", self.out, program="hif8-report")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
