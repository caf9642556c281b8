"""Checkpoints that break quantizers, through the program: checkpoint_cases_test.py HIF8_CALIBRATE.

Files are made and read with numpy and the definition of the format; no code is shared with the project.
"""

import json
import math
import os
import pathlib
import resource
import shutil
import struct
import sys
import unittest

import numpy as np
from plain_files import floats, read_file, sanitized
from program_case import PROGRAM, FolderCase

RNG = np.random.default_rng(11)
TYPES = {"float32": "F32", "int8": "I8", "uint8": "U8", "int32": "I32"}


def matrix(*shape):
    return RNG.standard_normal(shape).astype("f4")


def file_bytes(tensors, metadata=None, dtypes=None, change=None):
    """A file of numpy arrays by name. dtypes: other than numpy's; change(header) damages the header."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, array in tensors.items():
        dtype = (dtypes or {}).get(name) or TYPES[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    if change is not None:
        change(header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class CheckpointCases(FolderCase):
    def setUp(self):
        super().setUp()
        self.enter_folder()
        os.mkdir("m")

    def run_program(self, target="m", *args, code=0, says=()):
        # The address sanitizer reserves more addresses than any limit would allow.
        bounds = (resource.RLIM_INFINITY,) * 2 if sanitized(PROGRAM) else (3 << 30,) * 2
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, bounds)
        command = [PROGRAM, target, "-o", "out", "--recipe", "cast", "--force", *args]
        self.run_command(*command, code=code, says=says, timeout=60, preexec_fn=limit)
        if code != 0:
            self.assertEqual([name for name in os.listdir() if "out" in name], [], "something was left behind")
        return json.loads(pathlib.Path("out/report.json").read_text()) if code == 0 else None

    def write(self, name, *args, **options):
        pathlib.Path("m", name).write_bytes(file_bytes(*args, **options))

    def test_metadata_and_shards_without_tensors(self):
        layer = {"model.layers.0.mlp.up_proj.weight": matrix(4, 6)}
        self.write("a.safetensors", layer, metadata={"format": "pt", "author": "A. N. Other"})
        self.write("b.safetensors", {"model.norm.weight": matrix(6)}, metadata={})
        self.write("c.safetensors", {})
        self.run_program()
        written = {name: read_file(pathlib.Path("out", name)) for name in os.listdir("out") if name.endswith("safetensors")}
        self.assertEqual({name: w[1] for name, w in written.items()}, {
            "a.safetensors": {"format": "pt", "author": "A. N. Other"}, "b.safetensors": {}, "c.safetensors": None,
        })  # fmt: skip
        self.assertEqual(written["c.safetensors"][0], {})
        self.assertEqual(written["b.safetensors"], read_file(pathlib.Path("m/b.safetensors")))
        shutil.rmtree("out")
        os.remove("m/a.safetensors")
        self.run_program(code=3, says=["no layer can be quantized", "--dry-run lists"])

    def test_headers_that_lie(self):
        name = "model.layers.0.mlp.up_proj.weight"
        tensors = {"model.norm.weight": matrix(6), name: matrix(4, 6), "z": matrix(2)}
        set_at = lambda **values: lambda header: header[name].update(values)
        for change, says in (
            (set_at(shape=[4, 7]), [name, "offset 24", "does not match"]),
            (set_at(dtype="BF16"), [name, "offset 24", "does not match"]),
            (set_at(shape=[2**40, 2**40]), [name, "offset 24"]),
            (set_at(shape=[2**62, 4, 0]), [name, "offset 24"]),
            (set_at(shape=[-4, 6]), [name]),
            (set_at(data_offsets=[24, 2**50]), [name, "not inside"]),
            (set_at(data_offsets=[24, 132], shape=[27]), [name, "not inside"]),
            (set_at(data_offsets=[20, 116]), [name, "offset 20", "overlaps"]),
            (set_at(data_offsets=[24, 116], shape=[23]), ["offset 120", "a gap", "116"]),
        ):  # fmt: skip
            with self.subTest(says=says):
                self.write("x.safetensors", tensors, change=change)
                self.run_program(code=3, says=["m/x.safetensors", *says])
        # A type that nobody knows is no lie, but a layer has no values then.
        self.write("x.safetensors", tensors, change=set_at(dtype="F7"))
        self.run_program(code=3, says=[name.removesuffix(".weight"), "values of type F7 are not read"])
        whole = file_bytes(tensors)
        for length in (len(whole) - 7, 100_000_001, 2**40, 2**64 - 1):
            with self.subTest(length=length):
                pathlib.Path("m/x.safetensors").write_bytes(struct.pack("<Q", length) + whole[8:])
                self.run_program(code=3, says=["m/x.safetensors", "header"])
        for size in (0, 3, 8, 40, len(whole) - 1):
            pathlib.Path("m/x.safetensors").write_bytes(whole[:size])
            self.run_program(code=3, says=["m/x.safetensors"])

    def test_a_header_that_would_be_too_long_is_found_before_the_run(self):
        # Names so long that those of the scales take the header over the limit.
        names = [f"{i}{'x' * 9000}.weight" for i in range(5600)]
        self.write("x.safetensors", {name: matrix(2, 2) for name in names})
        for args in (["--dry-run"], []):
            self.run_program("m", *args, code=3, says=["the header of the quantized file would have 10", "more files"])

    def test_already_quantized(self):
        layer = "model.layers.0.mlp.up_proj"
        codes = RNG.integers(0, 100, (4, 6))
        for tensors, says in (
            ({f"{layer}.weight": codes.astype("i1")}, "I8 weights"),
            ({f"{layer}.weight": codes.astype("i1"), f"{layer}.weight_scale": matrix(4, 1), f"{layer}.weight_zero_point": codes[:, :1].astype("i1")}, "zero points"),
            ({f"{layer}.weight": codes.astype("i1"), f"{layer}.weight_scale": matrix(3, 1)}, "with scales F32 [3, 1]"),
            ({f"{layer}.weight": codes.astype("u1"), f"{layer}.weight_scale": matrix(4, 1)}, "U8 weights"),
            ({f"{layer}.qweight": codes.astype("i4"), f"{layer}.scales": matrix(4, 1)}, "GPTQ or AWQ"),
            ({f"{layer}.weight_packed": codes.astype("u1")}, "U8 weights"),
        ):  # fmt: skip
            with self.subTest(says=says):
                self.write("x.safetensors", tensors)
                self.run_program(code=3, says=["already quantized", says, layer, "give the checkpoint that it was made from"])

    def test_fp8_with_and_without_scales(self):
        layer = "model.layers.0.mlp.up_proj"
        codes = np.array([[0x38, 0xB8, 0x30, 0], [0x40, 0x38, 0, 0x38]], "u1")  # 1, -1, 0.5, 0; 2, 1, 0, 1 in E4M3
        tensors, dtypes = {f"{layer}.weight": codes}, {f"{layer}.weight": "F8_E4M3"}
        self.write("x.safetensors", tensors, dtypes=dtypes)
        self.run_program(code=3, says=[layer, "FP8 but has no", "_scale_inv"])
        self.write("x.safetensors", {**tensors, f"{layer}.weight_scale_inv": np.array([[0.375]], "f4")}, dtypes=dtypes)
        self.run_program()
        written, _ = read_file(pathlib.Path("out/x.safetensors"))
        self.assertEqual(sorted(written), [f"{layer}.weight", f"{layer}.weight_scale"])
        self.assertEqual(floats(written[f"{layer}.weight_scale"]), (0.375 / 16, 0.75 / 16))
        # What is left as it was is dequantized too: its scales are gone.
        kept = {**tensors, f"{layer}.weight_scale_inv": np.array([[0.375]], "f4"), "model.layers.0.mlp.gate_proj.weight": matrix(2, 4)}
        self.write("x.safetensors", kept, dtypes=dtypes)
        self.run_program("m", "--keep", "up_proj", "--fused-groups", "ignore")
        written, _ = read_file(pathlib.Path("out/x.safetensors"))
        self.assertEqual(written[f"{layer}.weight"][0], "BF16")
        self.assertEqual(floats(written[f"{layer}.weight"])[:3], (0.375, -0.375, 0.1875))

    def test_fused_experts_without_a_description_are_kept(self):
        name = "model.layers.0.mlp.experts.gate_up_proj"
        self.write("x.safetensors", {name: matrix(3, 8, 5), "model.layers.0.mlp.gate.weight": matrix(3, 5)})
        # [experts, out, in] and [experts, in, out] both exist: a guess would put scales along the wrong axis.
        self.run_program(code=3, says=[name, "is not known without a description"])

    def test_coverage_counts_what_is_kept(self):
        tensors = {"model.embed_tokens.weight": matrix(9, 4), "model.layers.0.mlp.up_proj.weight": matrix(6, 4)}
        self.write("x.safetensors", tensors)
        report = self.run_program()
        self.assertTrue(math.isclose(report["coverage"]["parameters"], 24 / 60))


if __name__ == "__main__":
    unittest.main(argv=["checkpoint_cases_test.py"])
