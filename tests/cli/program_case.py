"""What tests of the programs share: a folder of their own, runs that must end as expected, what is written.

The first argument of a test of hif8-calibrate is that program.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from plain_files import write_ids

PROGRAM = pathlib.Path(sys.argv[1]).resolve()


class FolderCase(unittest.TestCase):
    """A test in self.folder, which is gone afterwards."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def enter_folder(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def run_command(self, *command, code=0, says=(), timeout=300, **options):
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, errors="replace", check=False,
            timeout=timeout, **options,
        )  # fmt: skip
        told = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, f"{command[1:]}\n{told[-3000:]}")
        for text in says:
            self.assertIn(text, told)
        return done


class CalibrateCase(FolderCase):
    """Runs of hif8-calibrate that write self.out."""

    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def run_program(self, *args, code=0, **options):
        return self.run_command(PROGRAM, *args, code=code, **options)

    def quantize(self, model, *args, **options):
        """The report."""
        self.run_program(model, "-o", self.out, "--force", *args, **options)
        return json.loads((self.out / "report.json").read_text())

    def ids(self, *samples):
        path = self.folder / "ids.npy"
        write_ids(path, samples)
        return path
