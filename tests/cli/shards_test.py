"""Parts of a checkpoint, joined: shards_test.py HIF8_CALIBRATE DATA_DIR SAMPLES_DIR.

One process, three --shards parts, a Slurm array's tasks, an indexed job's pods and two MPI ranks write the same files.
"""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import textwrap
import unittest

from plain_files import read_file, write_file, write_ids
from program_case import PROGRAM, CalibrateCase

DATA, SAMPLES = (pathlib.Path(argument).resolve() for argument in sys.argv[2:4])
MODELS, CLUSTER = DATA / "models", SAMPLES / "cluster"


def split(model, folder, count, backwards=False):
    """The checkpoint in `count` files; what belongs to one module stays together."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    tensors = {}
    for path in sorted(model.glob("model*.safetensors")):
        tensors.update(read_file(path)[0])
    modules = sorted({name.rsplit(".", 1)[0] for name in tensors}, reverse=backwards)
    weight_map = {}
    for i in range(count):
        mine = set(modules[i * len(modules) // count : (i + 1) * len(modules) // count])
        name = f"model-{i + 1:05}-of-{count:05}.safetensors"
        chosen = {n: t for n, t in tensors.items() if n.rsplit(".", 1)[0] in mine}
        write_file(folder / name, chosen, {"format": "pt"})
        weight_map.update(dict.fromkeys(chosen, name))
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def files_of(folder):
    """Every file's bytes; of the report all but its run."""
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    report = json.loads(files["report.json"])
    del report["run"]
    files["report.json"] = json.dumps(report)
    return files


class ShardsTest(CalibrateCase):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        split(MODELS / "random-deepseek-v3-fp8", self.model, 5)

    def run_program(self, *args, **options):
        """What it prints."""
        done = super().run_program(*args, **options)
        return done.stdout + done.stderr

    def part(self, k, n, *args, name=None, recipe="cast", **more):
        path = self.folder / (name or f"part{k}")
        more["text"] = self.run_program(self.model, "-o", path, "--recipe", recipe, "--shards", f"{k}/{n}", *args,
                                        **more)
        return path

    def whole(self, *args, recipe="cast"):
        self.run_program(self.model, "-o", self.folder / "whole", "--recipe", recipe, *args)
        return files_of(self.folder / "whole")

    def expect_same(self, expected, folder):
        found = files_of(folder)
        self.assertEqual(sorted(found), sorted(expected))
        for name, content in expected.items():
            self.assertEqual(found[name], content, name)

    def test_three_parts_are_one_process(self):
        expected = self.whole()
        self.assertEqual(len([n for n in expected if n.endswith(".safetensors") and n.startswith("model-")]), 5)
        parts = [self.part(k, 3) for k in (3, 1, 2)]
        counts = [len(list(p.glob("model-*.safetensors"))) for p in parts]
        self.assertEqual(sorted(counts), [1, 2, 2])
        self.run_program("merge", *parts, "-o", self.folder / "out")
        self.expect_same(expected, self.folder / "out")
        run = json.loads((self.folder / "out" / "report.json").read_text())["run"]
        self.assertTrue(run["command"].startswith("hif8-calibrate merge "))

    def test_more_parts_than_files_and_one_part(self):
        expected = self.whole()
        self.run_program("merge", *[self.part(k, 7) for k in range(1, 8)], "-o", self.folder / "out")
        self.expect_same(expected, self.folder / "out")
        self.run_program("merge", self.part(1, 1, name="single"), "-o", self.folder / "out", "--force")
        self.expect_same(expected, self.folder / "out")

    def test_simulated_and_kept_layers(self):
        args = ("--keep", "shared_experts", "--export", "simulated")
        expected = self.whole(*args)
        self.run_program("merge", *[self.part(k, 2, *args) for k in (1, 2)], "-o", self.folder / "out")
        self.expect_same(expected, self.folder / "out")

    def test_scales_from_statistics_of_two_machines(self):
        halves = [range(40), range(60, 100)]
        stats = []
        for i, half in enumerate([*halves, None]):
            ids = self.folder / f"{i}.npy"
            write_ids(ids, [half] if half else halves)
            stats.append(self.folder / f"{i}.stats")
            self.run_program(self.model, "--data", ids, "--kv-cache", "max", "--stats-out", stats[i])
        merged = self.folder / "all.stats"
        self.run_program("merge", *stats[:2], "-o", merged)
        self.assertEqual(merged.read_bytes(), stats[2].read_bytes())
        text = self.run_program("merge", stats[0], stats[1], stats[0], "-o", merged, "--force", code=2)
        self.assertIn("given twice", text)
        self.assertIn("already exists", self.run_program("merge", *stats[:2], "-o", merged, code=2))
        args = ("--kv-cache", "max", "--stats-in", merged)
        expected = self.whole(*args, recipe="inference")
        parts = [self.part(k, 3, *args, recipe="inference") for k in (1, 2, 3)]
        self.run_program("merge", *parts, "-o", self.folder / "out")
        self.expect_same(expected, self.folder / "out")
        # The merged model is known by its fingerprint: its scales can be given to the source again.
        self.run_program(self.model, "-o", self.folder / "again", "--kv-cache", "max", "--calibration",
                         self.folder / "out" / "calibration.yaml")

    def test_an_interrupted_part_goes_on(self):
        shutil.rmtree(self.model)
        split(MODELS / "random-deepseek-v3-fp8", self.model, 5, backwards=True)
        expected = self.whole("--export", "simulated")
        sizes = [len(expected[f"model-0000{i}-of-00005.safetensors"]) for i in range(1, 6)]
        # The embedding and the head come last: a limit on the size of files stops the run there.
        limit = max(sizes) - 1
        self.assertLess(sizes[0], limit)
        stop = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}
        path = self.part(1, 1, "--export", "simulated", code=4, **stop)
        unfinished = path.parent / f".{path.name}.unfinished"
        finished = {p.name: p.stat().st_mtime_ns for p in (unfinished / "new").glob("model-*.safetensors")}
        self.assertTrue(0 < len(finished) < 5, finished)
        self.assertFalse(path.exists())
        text = self.run_program(self.model, "-o", path, "--recipe", "cast", "--shards", "1/1", "--export", "simulated",
                                code=4, **stop)
        self.assertIn(f"finished files stay in {unfinished}: the same command", text)
        text = self.run_program(self.model, "-o", path, "--recipe", "cast", "--shards", "1/1", "--export", "simulated",
                                "-v")
        for name, time in finished.items():
            self.assertIn(f"{name} was finished by an interrupted run", text)
            self.assertEqual((path / name).stat().st_mtime_ns, time)
        self.run_program("merge", path, "-o", self.folder / "out")
        self.expect_same(expected, self.folder / "out")

    def test_parts_that_do_not_belong_together(self):
        one, two, three = (self.part(k, 3) for k in (1, 2, 3))
        out = self.folder / "out"

        def refused(*parts, code=2, says):
            text = self.run_program("merge", *parts, "-o", out, code=code)
            self.assertRegex(text, says)
            self.assertFalse(out.exists())

        refused(one, three, says=r"all 3 parts, missing: 2/3")
        refused(one, two, two, three, says=r"part 2/3 is given twice")
        refused(one, self.part(2, 4, name="other"), three, says=r"divisions \(1/3 and 2/4\)")
        refused(one, self.part(2, 3, "--set", "weights.power_of_two=true", name="recipe"), three, says="two recipes")
        refused(one, self.part(2, 3, "--export", "simulated", name="form"), three, says="two results")
        text = self.run_program("merge", one, two, three, "-o", self.folder, "--force", code=2)
        self.assertIn("which it would replace", text)
        refused(one, two, self.folder, code=3, says="found no hif8-part.json")
        shard = self.model / "model-00001-of-00005.safetensors"
        changed = bytearray(shard.read_bytes())
        changed[8 + int.from_bytes(changed[:8], "little")] ^= 1
        shard.write_bytes(changed)
        refused(one, self.part(2, 3, name="source"), three, says="two checkpoints")
        (two / "hif8-part.json").write_text("{}")
        refused(one, two, three, code=3, says="description of a part")

    def change(self, *shards, end=False):
        """A bit in the middle of the longest tensor of these files, or in the last byte of all of them."""
        for shard in shards:
            path = self.model / f"model-{shard:05}-of-00005.safetensors"
            data = bytearray(path.read_bytes())
            start = 8 + int.from_bytes(data[:8], "little")
            places = [t["data_offsets"] for n, t in json.loads(data[8:start]).items() if n != "__metadata__"]
            first, last = max(places, key=lambda place: place[1] - place[0])
            data[-1 if end else start + (first + last) // 2] ^= 1
            path.write_bytes(data)

    def test_sources_that_differ_in_the_middle_of_a_tensor(self):
        """No part reads that of another's files: the source tells, or a part that read everything."""
        good, out = shutil.copytree(self.model, self.folder / "good"), self.folder / "out"
        parts = [self.part(k, 3) for k in (1, 2, 3)]
        text = self.run_program("merge", *parts, "-o", out, "--source", good)
        self.assertNotIn("samples", text)
        self.change(1, 2, 3, 4, 5)
        mixed = [parts[0], self.part(2, 3, name="other"), parts[2]]
        text = self.run_program("merge", *mixed, "-o", out, "--force")
        self.assertIn("warning: each part knows the files of the others by samples only", text)
        for source, wrong in ((good, "2/3"), (self.model, "1/3")):
            text = self.run_program("merge", *mixed, "-o", out, "--force", "--source", source, code=2)
            self.assertRegex(text, f"tensor '.*' is not what part {wrong} was made from")

    def test_a_part_that_read_everything_knows_the_source(self):
        ids = self.folder / "ids.npy"
        write_ids(ids, [range(40)])

        def part(k):
            stats = self.folder / f"{k}.stats"
            self.run_program(self.model, "--data", ids, "--stats-out", stats)
            return self.part(k, 2, "--stats-in", stats, recipe="inference")

        parts = [part(1), part(2)]
        self.assertNotIn("samples", self.run_program("merge", *parts, "-o", self.folder / "out"))
        self.change(1, 2, 3, 4, 5)
        shutil.rmtree(parts[1])
        text = self.run_program("merge", parts[0], part(2), "-o", self.folder / "mixed", code=2)
        self.assertIn("two checkpoints", text)

    def test_the_end_of_another_part_s_tensors(self):
        one = self.part(1, 3)
        self.change(1, end=True)
        text = self.run_program("merge", one, self.part(2, 3), self.part(3, 3), "-o", self.folder / "out", code=2)
        self.assertIn("two checkpoints", text)

    def test_what_has_no_parts(self):
        for text in ("0/3", "4/3", "1", "1/", "/3", "a/b", "1/3x", "-1/3"):
            self.assertIn("--shards", self.run_program(self.model, "-o", self.folder / "x", "--shards", text, code=2))
        ids = self.folder / "ids.npy"
        write_ids(ids, [range(8)])
        text = self.run_program(self.model, "-o", self.folder / "x", "--shards", "1/2", "--data", ids, code=2)
        self.assertIn("--stats-in", text)
        self.assertIn("no output", self.run_program("merge", self.model, code=2))
        self.assertIn("--source is for", self.run_program("merge", ids, "-o", "x", "--source", self.model, code=2))
        self.assertIn("PART", self.run_program("merge", "--help"))

    def environment(self, **more):
        path = f"{PROGRAM.parent}:{os.environ['PATH']}"
        return {"env": {**os.environ, "PATH": path, **more}, "check": True, "timeout": 300}

    def test_slurm_array(self):
        expected = self.whole()
        for task in (5, 6, 7):
            env = self.environment(SLURM_ARRAY_TASK_ID=str(task), SLURM_ARRAY_TASK_MIN="5", SLURM_ARRAY_TASK_COUNT="3",
                                   SLURM_CPUS_PER_TASK="1")
            for _ in range(2):  # the second time as if requeued
                subprocess.run(["bash", CLUSTER / "slurm-array.sbatch", self.model, self.folder / "out", "-q"],
                               stdout=subprocess.DEVNULL, **env)
        subprocess.run(["bash", CLUSTER / "slurm-merge.sbatch", self.folder / "out"], stdout=subprocess.DEVNULL,
                       **self.environment())
        self.expect_same(expected, self.folder / "out")

    def test_kubernetes_indexed_job(self):
        expected = self.whole()

        def command(name):
            text = (CLUSTER / name).read_text()
            self.assertIn("command: [bash, -euo, pipefail, -c]\n", text)
            script = re.search(r"args:\n +- \|\n((?: {14}.*\n)+)", text).group(1)
            return ["bash", "-euo", "pipefail", "-c", textwrap.dedent(script)]

        place = {"MODEL": str(self.model), "OUT": str(self.folder / "out"), "PARTS": "2"}
        for index in "01":
            subprocess.run(command("kubernetes-indexed-job.yaml"), stdout=subprocess.DEVNULL,
                           **self.environment(JOB_COMPLETION_INDEX=index, **place))
        subprocess.run(command("kubernetes-merge-job.yaml"), stdout=subprocess.DEVNULL, **self.environment(**place))
        self.expect_same(expected, self.folder / "out")

    @unittest.skipUnless(shutil.which("mpirun"), "SKIPPED: no mpirun (Debian's openmpi-bin)")
    def test_two_mpi_ranks(self):
        expected = self.whole()
        subprocess.run(
            [CLUSTER / "open-mpi.sh", "2", self.model, self.folder / "out", "-q"], stdout=subprocess.DEVNULL,
            **self.environment(MPIRUN="--allow-run-as-root --oversubscribe"))
        self.expect_same(expected, self.folder / "out")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
