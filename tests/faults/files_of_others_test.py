"""Files that are not the program's: files_of_others_test.py BIN FAULT_LIBRARY TESTS_DIR.

Links and folders of others under our names, strangers' files in a result, outputs that are inputs, two runs at once.
"""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import numpy as np

BIN, LIBRARY, TESTS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(TESTS / "cli"))
sys.argv[1:] = [str(BIN / "hif8-calibrate")]
from onnx_program import matmul  # noqa: E402
from program_case import FolderCase  # noqa: E402

FINISHED = ".finished-files"  # the work that a run can go on with
CHECKPOINT = TESTS / "data" / "models" / "random-llama"


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class OthersTest(FolderCase):
    def setUp(self):
        super().setUp()
        self.enter_folder()
        pathlib.Path("m.onnx").write_bytes(matmul())
        np.save("x.npy", np.random.default_rng(1).standard_normal((6, 4)).astype("f4"))
        self.onnx = ("m.onnx", "--data", "x.npy", "-o", "out")
        self.kinds = (self.onnx, (CHECKPOINT, "--recipe", "cast", "-o", "out"))

    def calibrate(self, *args, code=0, says=(), **options):
        return self.run_command(BIN / "hif8-calibrate", *args, code=code, says=says, **options)

    def refused(self, *args, says, program="hif8-calibrate"):
        """The run ends with 2, and nothing whatever has changed."""
        before = contents(self.folder)
        names = sorted(str(p) for p in self.folder.rglob("*"))
        self.run_command(BIN / program, *args, code=2, says=[*says, "hint: "])
        self.assertEqual(contents(self.folder), before)
        self.assertEqual(sorted(str(p) for p in self.folder.rglob("*")), names)

    def test_a_link_that_has_the_name_of_the_work_folder(self):
        pathlib.Path("others").mkdir()
        pathlib.Path("others/letter").write_text("mine")
        pathlib.Path(".out.unfinished").symlink_to("others")
        for command in self.kinds:
            self.refused(*command, says=["/.out.unfinished: expected", "a link or a file"])
        pathlib.Path(".s.unfinished").symlink_to("others")
        self.run_command(BIN / "hif8-calibrate", "m.onnx", "--data", "x.npy", "--stats-out", "s", code=2,
                         says=["/.s.unfinished: expected"])
        self.assertEqual(os.listdir("others"), ["letter"])

    def test_a_folder_of_somebody_else(self):
        work = pathlib.Path(".out.unfinished")
        work.mkdir()
        (work / "letter").write_text("mine")
        for command in self.kinds:
            self.refused(*command, says=["a folder with other files"])
        # A marker that is a link, another text, or stands beside what it does not belong to.
        marker = work / ".hif8-unfinished"
        marker.symlink_to("../m.onnx")
        self.refused(*self.onnx, says=["a folder with other files"])
        marker.unlink()
        marker.write_text("something else")
        self.refused(*self.onnx, says=["a folder with other files"])
        marker.write_text("An unfin")
        self.refused(*self.onnx, says=["a folder with other files"])

    def test_what_a_killed_run_left_goes(self):
        work = pathlib.Path(".out.unfinished")
        for text in (None, "", "An unfin"):
            work.mkdir()
            if text is not None:
                (work / ".hif8-unfinished").write_text(text)
            self.calibrate(*self.onnx, "--force")
            self.assertEqual(sorted(os.listdir()), ["m.onnx", "out", "x.npy"])

    def leave_unfinished(self, *args):
        """A checkpoint's run that is killed on its way."""
        killed = dict(os.environ, LD_PRELOAD=str(LIBRARY), HIF8_FAULT_BELOW=str(self.folder.resolve()),
                      HIF8_FAULT="kill", HIF8_FAULT_AT="12")  # fmt: skip
        self.calibrate(*self.kinds[1], *args, code=-signal.SIGKILL, env=killed)

    def test_a_refused_run_removes_what_a_killed_one_left(self):
        self.calibrate(*self.onnx)
        before = contents(pathlib.Path("out"))
        work = pathlib.Path(".out.unfinished")
        finished = work / "new" / FINISHED
        self.leave_unfinished("--force")
        for path in work.rglob(FINISHED):
            path.unlink()
        finished.parent.mkdir(exist_ok=True)
        finished.write_text("")
        for command in self.kinds:
            self.refused(*command, says=["already exists"])
        finished.unlink()
        lock = os.open(work, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.refused(*self.onnx, says=["already exists"])
        os.close(lock)
        (work / "new" / "model.onnx").write_text("an earlier result")
        self.calibrate(*self.onnx, code=2, says=["already exists"])
        self.assertEqual(sorted(os.listdir()), ["m.onnx", "out", "x.npy"])
        self.assertEqual(contents(pathlib.Path("out")), before)

    def test_links_in_the_work_folder_are_not_followed(self):
        pathlib.Path("victim").write_text("mine")
        command = self.kinds[1]
        self.leave_unfinished()
        new = pathlib.Path(".out.unfinished/new")
        for name in ("model.safetensors.partial", "config.json", "recipe.yaml", "report.json", ".hif8-files"):
            (new / name).unlink(missing_ok=True)
            (new / name).symlink_to("../../victim")
        self.calibrate(*command)
        self.assertEqual(pathlib.Path("victim").read_text(), "mine")
        self.assertFalse(any(p.is_symlink() for p in pathlib.Path("out").rglob("*")))

    def test_strangers_in_a_result(self):
        for command in self.kinds:
            self.calibrate(*command, "--force")
            for i in range(5):
                pathlib.Path(f"out/note{i}.txt").write_text("mine")
            pathlib.Path("out/photos").mkdir()
            pathlib.Path("out/photos/me.jpg").write_text("mine too")
            self.refused(*command, "--force", says=["'note0.txt', 'note1.txt', 'note2.txt' and 3 more"])
            for i in range(5):
                pathlib.Path(f"out/note{i}.txt").unlink()
            self.refused(*command, "--force", says=["'photos/me.jpg'"])
            pathlib.Path("out/photos/me.jpg").unlink()
            self.calibrate(*command, "--force")
        for name in (".hif8-files", "calibration.yaml"):
            text = pathlib.Path("out", name).read_bytes()
            pathlib.Path("out", name).unlink()
            self.refused(*self.onnx, "--force", says=[f"it has no {name}"])
            pathlib.Path("out", name).write_bytes(text)

    def test_two_at_once(self):
        for command in self.kinds:
            for _ in range(4):
                runs = [subprocess.Popen([BIN / "hif8-calibrate", *command, "--force"], text=True,
                                         stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(3)]
                ends = [(run.communicate(timeout=120)[1], run.returncode) for run in runs]
                self.assertIn(0, [code for _, code in ends])
                for text, code in ends:
                    self.assertIn(code, (0, 4))
                    if code == 4:
                        self.assertIn("another run is writing this output", text)
                self.assertEqual(sorted(os.listdir()), ["m.onnx", "out", "x.npy"])

    def test_outputs_inside_of_the_output(self):
        self.calibrate(*self.onnx)
        for option in ("--stats-out", "--log-file"):
            for path in ("out/x", "out/../out/model.onnx", "out/report.json"):
                self.refused(*self.onnx, "--force", option, path, says=[option])
            for path in ("fresh/x", "./fresh/x", "sub/../fresh/x"):
                self.refused("m.onnx", "--data", "x.npy", "-o", "fresh", option, path, says=[option, "lies in"])

    def test_outputs_that_are_inputs(self):
        self.calibrate(*self.onnx)
        pathlib.Path("data").mkdir()
        pathlib.Path("x.npy").rename("data/x.npy")
        os.link("data/x.npy", "hard")
        pathlib.Path("soft").symlink_to("data/x.npy")
        pathlib.Path("same").symlink_to("m.onnx")
        run = ("m.onnx", "--data", "data")
        for option in ("--stats-out", "--log-file"):
            for path in ("hard", "soft", "data/x.npy", "same", "m.onnx"):
                rest = ("-o", "fresh") if option == "--log-file" else ()
                self.refused(*run, *rest, option, path, says=[option, "would overwrite"])
        self.refused(*run, "--stats-out", "new", "--log-file", "./new", says=["would overwrite"])
        # A pattern that is also the name of a folder, in which the log lies.
        pathlib.Path("run.log").write_text("earlier")
        self.calibrate(*run, "-o", "fresh", "--only", ".", "--log-file", "run.log")

    def test_a_report_over_its_own_input(self):
        self.calibrate(*self.onnx)
        pathlib.Path("link").symlink_to("out")
        os.link("out/report.json", "hard")
        for path in ("out/report.json", "link/report.json", "hard", "out/model.onnx", "out/calibration.yaml"):
            self.refused("out", "--to", "html", "-o", path, says=["--output would overwrite"], program="hif8-report")
            self.refused("out", "--log-file", path, says=["--log-file would overwrite"], program="hif8-report")
        for _ in range(2):
            self.run_command(BIN / "hif8-report", "out", "--to", "html", "-o", "out/page.html")
        self.refused("m.onnx", "out/model.onnx", "-o", "m.onnx", says=["would overwrite"], program="hif8-report")

    def test_a_pipe_is_written_to(self):
        self.calibrate(*self.onnx)
        self.run_command(BIN / "hif8-report", "out", "--to", "csv", "-o", "file")
        os.mkfifo("pipe")
        with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
            self.run_command(BIN / "hif8-report", "out", "--to", "csv", "-o", "pipe")
            self.assertEqual(reader.communicate(timeout=60)[0], pathlib.Path("file").read_bytes())
        self.assertTrue(pathlib.Path("pipe").is_fifo())

    def test_a_log_that_cannot_be_written(self):
        done = self.calibrate(*self.onnx, "--log-file", "/dev/full", "--quiet")
        self.assertEqual(done.stderr.count("cannot write the log file"), 1)
        self.assertIn("goes on without it", done.stderr)
        pathlib.Path("locked").write_text("")
        self.calibrate(*self.onnx, "--force", "--log-file", "locked/log", code=4, says=["cannot write the log file"])

    def test_nothing_is_written_into_the_home_folder(self):
        home = pathlib.Path("home")
        home.mkdir()
        hidden = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ORT_"))}
        for command in self.kinds:
            self.calibrate(*command, "--force", env=dict(hidden, HOME=str(home.resolve())))
            self.assertEqual(contents(home), {})
        self.run_command(BIN / "hif8-report", "out", env=dict(hidden, HOME=str(home.resolve())))
        self.assertEqual(list(home.rglob("*")), [])

    def test_a_result_lists_its_files(self):
        for command in self.kinds:
            self.calibrate(*command, "--force")
            listed = pathlib.Path("out/.hif8-files").read_text().splitlines()
            self.assertEqual(sorted([*listed, ".hif8-files"]), sorted(contents(pathlib.Path("out"))))
            self.assertTrue(json.loads(pathlib.Path("out/report.json").read_text()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
