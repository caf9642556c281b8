"""Links among the files of a model, and files that are not what they should be: links_test.py HIF8_CALIBRATE DATA_DIR.

What lies around the model is listed before and after: nothing is written but the output.
"""

import json
import os
import pathlib
import shutil
import sys
import unittest

from plain_files import read_file, write_file
from program_case import CalibrateCase

MODEL = pathlib.Path(sys.argv[2]).resolve() / "models" / "random-deepseek-v3-fp8"


def tree(folder):
    """Everything below: type, size, time, target."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        found[str(path)] = (info.st_mode, info.st_size, info.st_mtime_ns, os.readlink(path) if path.is_symlink() else "")
    return found


def contents(folder):
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    del files["report.json"]
    return files


class LinksTest(CalibrateCase):
    def setUp(self):
        super().setUp()
        self.world = self.folder / "world"
        self.world.mkdir()
        self.model = self.world / "model"

    def cast(self, model, out="out", code=0, says=(), **options):
        before = tree(self.world)
        path = self.folder / out
        done = self.run_program(model, "--recipe", "cast", "-o", path, code=code, says=says, **options)
        after = tree(self.world)
        self.assertEqual(before, after)
        self.assertEqual(path.exists(), code == 0)
        return done.stderr

    def copy(self):
        shutil.copytree(MODEL, self.model)
        (self.model / "notes").mkdir()
        (self.model / "notes" / "a.md").write_text("a")
        return self.model

    def test_the_cache_of_a_hub_is_a_plain_folder(self):
        plain = self.copy()
        self.cast(plain, "plain")
        expected = contents(self.folder / "plain")
        self.assertIn("notes/a.md", expected)
        snapshot, blobs = self.world / "cache" / "snapshots" / "0123", self.world / "cache" / "blobs"
        blobs.mkdir(parents=True)
        for i, path in enumerate(sorted(p for p in plain.rglob("*") if p.is_file())):
            name = path.relative_to(plain)
            shutil.copy(path, blobs / f"{i:064x}")
            (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
            up = "../" * (len(name.parts) + 1)
            (snapshot / name).symlink_to(f"{up}blobs/{i:064x}")
        said = self.cast(snapshot, "cached")
        self.assertNotIn("link", said)
        self.assertEqual(contents(self.folder / "cached"), expected)
        one = next(snapshot.glob("*.safetensors"))
        self.cast(one, "single")
        self.assertTrue((self.folder / "single" / one.name).is_file())

    def test_every_kind_of_link(self):
        model = self.copy()
        outside = self.world / ".config" / "autostart"
        outside.mkdir(parents=True)
        (outside / "x").write_text("outside")
        for name, target in (
            ("up.md", "../.config/autostart/x"), ("absolute.md", outside / "x"), ("inner.md", "notes/a.md"),
            ("dangling.md", "../.config/none/y"), ("loop.md", "loop.md"), ("folder", "../.config/autostart"),
            ("around", ".."), ("self", "."), ("notes/back", "../notes"), ("second", "notes"),
        ):  # fmt: skip
            (model / name).symlink_to(target)
        said = self.cast(model)
        files = contents(self.out)
        for name, text in (("up.md", "outside"), ("absolute.md", "outside"), ("inner.md", "a"), ("folder/x", "outside"),
                           ("second/a.md", "a"), ("notes/a.md", "a")):  # fmt: skip
            self.assertEqual(files[name].decode(), text, name)
        self.assertFalse([p for p in self.out.rglob("*") if p.is_symlink()])
        for name in ("dangling.md", "loop.md", "around", "self", "notes/back"):
            self.assertNotIn(name, files)
            self.assertRegex(said, rf"'{name}' is a link to [^\n]*: left out")
        for name in ("up.md", "absolute.md", "folder"):
            self.assertRegex(said, rf"'{name}' is a link out of the directory, to [^\n]*: followed")
        self.assertNotRegex(said, "'(inner.md|second)' is a link")

    def test_a_pointer_of_git_lfs(self):
        model = self.copy()
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
        for name in ("config.json", next(model.glob("*.safetensors")).name):
            kept = (model / name).read_bytes()
            (model / name).write_text(pointer)
            self.cast(model, code=3, says=["a pointer of Git LFS", "git lfs pull", name])
            (model / name).write_bytes(kept)

    def test_an_adapter_without_its_base(self):
        self.model.mkdir()
        (self.model / "adapter_config.json").write_text("{}")
        self.cast(self.model, code=3, says=["an adapter (LoRA)", "merge"])
        names = (f"base_model.model.layers.0.q_proj.lora_{x}.weight" for x in "AB")
        write_file(self.model / "adapter_model.safetensors", {n: ("F32", [1, 1], bytes(4)) for n in names})
        self.cast(self.model, code=3, says=["an adapter (LoRA)", "merge"])
        self.cast(self.model / "adapter_model.safetensors", code=3, says=["an adapter (LoRA)", "merge"])

    def shards(self, *shards, index=None):
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "fp8"}}))
        weight_map = {}
        for i, tensors in enumerate(shards):
            write_file(self.model / f"s{i}.safetensors", tensors)
            weight_map.update(dict.fromkeys(tensors, f"s{i}.safetensors"))
        weight_map.update(index or {})
        (self.model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    def test_scales_in_another_shard(self):
        weight = {"a.weight": ("F8_E4M3", [4, 4], bytes([0x38] * 16))}
        scale = {"a.weight_scale_inv": ("F32", [1, 1], bytes([0, 0, 0, 0x40]))}
        self.shards(weight, scale)
        self.cast(self.model, "apart", says=())
        shutil.rmtree(self.model)
        self.shards({**weight, **scale})
        self.cast(self.model, "together")
        apart, together = (read_file(self.folder / name / "s0.safetensors") for name in ("apart", "together"))
        self.assertEqual(apart, together)
        self.assertEqual(apart[0]["a.weight"][0], "U8")
        shutil.rmtree(self.model)
        self.shards(weight, {"b": ("F32", [1], bytes(4))})
        self.cast(self.model, "none", code=3, says=["in any shard"])

    def test_the_index_says_which_of_two_counts(self):
        ones, twos = ({"a.weight": ("F32", [1, 4], bytes([0, 0, x, x2] * 4))} for x, x2 in ((0x80, 0x3F), (0, 0x40)))
        rest = {"b": ("F32", [1], bytes(4))}
        self.shards({**ones, **rest}, {**twos, "c": ("F32", [1], bytes(4))}, index={"a.weight": "s0.safetensors"})
        write_file(self.model / "stray.safetensors", rest)
        said = self.cast(self.model)
        self.assertIn("'a.weight' is in s0.safetensors and in s1.safetensors: taken from s0.safetensors", said)
        self.assertIn("'stray.safetensors' is named by no index", said)
        index = json.loads((self.out / "model.safetensors.index.json").read_text())["weight_map"]
        self.assertEqual(index["a.weight"], "s0.safetensors")
        self.assertEqual(list(read_file(self.out / "s1.safetensors")[0]), ["c"])
        self.assertEqual((self.out / "stray.safetensors").read_bytes(), (self.model / "stray.safetensors").read_bytes())

    def test_other_weights_in_floats_are_left_out(self):
        self.shards({"a.weight": ("F32", [1, 4], bytes([0, 0, 0x80, 0x3F] * 4))}, index={"a.weight": "s0.safetensors"})
        weights = [
            "model.safetensors", "consolidated.safetensors", "consolidated.safetensors.index.json", "consolidated.00.pth",
            "pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json", "original/consolidated.00.pth",
        ]  # fmt: skip
        others = ["reference.safetensors", "training_args.bin", "original/params.json", "onnx/model.onnx.bin"]
        for name in weights + others:
            (self.model / name).parent.mkdir(exist_ok=True)
            write_file(self.model / name, {"a.weight": ("F32", [1, 4], bytes(16))})
        said = self.cast(self.model)
        for name in weights:
            self.assertIn(f"'{name}' holds weights beside the checkpoint's own", said)
            self.assertFalse((self.out / name).exists(), name)
        for name in others:
            self.assertEqual((self.out / name).read_bytes(), (self.model / name).read_bytes())
            self.assertNotIn(f"'{name}' holds", said)

    def test_every_type_passes_through(self):
        self.model.mkdir()
        sizes = {"F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64, "F8_E4M3FNUZ": 8, "Q3_NEW": 3}
        tensors = {"a.weight": ("F32", [2, 4], bytes(32))}
        for i, (name, bits) in enumerate(sizes.items()):
            tensors[f"t{i}"] = (name, [3, 8], bytes(range(24 * bits // 8)))
        tensors["layers.0.b.weight"] = ("F4", [2, 4], bytes(4))
        write_file(self.model / "model.safetensors", tensors)
        self.cast(self.model)
        raw = (self.out / "model.safetensors").read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
        for name, (dtype, shape, content) in tensors.items():
            if name == "a.weight":
                continue
            begin, end = header[name]["data_offsets"]
            self.assertEqual((header[name]["dtype"], header[name]["shape"], data[begin:end]), (dtype, shape, content))
        done = self.run_program(self.model, "--recipe", "cast", "--dry-run")
        self.assertIn("values of type F4 are not read", done.stdout)
        for name, shape, size in (("F4", [3, 1], 2), ("F4", [2, 4], 5), ("F6_E2M3", [3, 8], 24)):
            write_file(self.model / "model.safetensors", {"t": (name, shape, bytes(size))})
            self.cast(self.model, "bad", code=3, says=["does not match"])

    def test_what_is_no_regular_file(self):
        model = self.copy()
        os.mkfifo(self.folder / "pipe")
        for path, says in (("/dev/zero", "regular file"), (self.folder / "pipe", "regular file"),
                           ("/proc/self/status", "expected to hold 0 bytes"), (self.folder, "directory")):  # fmt: skip
            for option, code in (("--recipe", 2), ("--calibration", 3), ("--stats-in", 3)):
                with self.subTest(path=path, option=option):
                    self.run_program(model, option, path, "-o", self.out, code=code, says=[says], timeout=30)
        with open(self.folder / "large.yaml", "wb") as file:
            file.truncate(1 << 31)
        self.run_program(model, "--recipe", self.folder / "large.yaml", "-o", self.out, code=2, says=["at most"])
        (model / "config.json").unlink()
        (model / "config.json").symlink_to("/dev/zero")
        self.run_program(model, "--recipe", "cast", "-o", self.out, code=3, says=["regular file"], timeout=30)

    def test_a_setting_that_is_read_late(self):
        model = self.copy()
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": "no"}))
        self.run_program(model, "--recipe", "cast", "--dry-run", code=3, says=["tie_word_embeddings", "true or false"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
