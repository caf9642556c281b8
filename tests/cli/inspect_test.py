"""Runs hif8-report inspect: inspect_test.py BIN_DIR ROOT. Its numbers are computed here from the files as well."""

import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
import unittest

from pair_case import BIN, MODELS, ROOT, PairCase
from plain_files import floats, read_file, sanitized, write_file


class Inspect(PairCase):
    def inspect(self, *args):
        return json.loads(self.run_program("hif8-report", "inspect", *args, "--json", "-q").stdout)

    def test_magnitudes(self):
        model = MODELS / "random-qwen2"
        sources, _ = read_file(model / "model.safetensors")
        found = self.inspect(model)
        self.assertEqual([t["name"] for t in found["tensors"]], list(sources))
        self.assertEqual(found["parameters"], sum(math.prod(s[1]) for s in sources.values()))
        total = {}
        for tensor in found["tensors"]:
            values = floats(sources[tensor["name"]])
            self.assertEqual(tensor["amax"], max(map(abs, values)))
            self.assertAlmostEqual(tensor["rms"], math.sqrt(sum(v * v for v in values) / len(values)), places=12)
            self.assertEqual(tensor["zeros"], sum(v == 0 for v in values))
            exponents = {}
            for v in values:
                if v != 0:
                    e = str(math.frexp(v)[1] - 1)
                    exponents[e] = exponents.get(e, 0) + 1
            self.assertEqual(tensor["exponents"], exponents, tensor["name"])
            total = {e: total.get(e, 0) + exponents.get(e, 0) for e in {*total, *exponents}}
        self.assertEqual(found["exponents"], total)

    def test_what_a_recipe_would_do(self):
        def plans(*args):
            return {t["name"]: t["plan"] for t in self.inspect(*args)["tensors"] if t["plan"]}

        model = MODELS / "random-pangu-embedded"
        planned = self.run_program("hif8-calibrate", model, "--dry-run", "--json", "--recipe", "pangu-qat").stdout
        want = {x["name"] + ".weight": x for x in json.loads(planned)["layers"]}
        found = plans(model, "--recipe", "pangu-qat")
        self.assertEqual(len(found), 37)
        for name, plan in found.items():
            reason = want[name]["reason"]
            self.assertEqual((plan["status"], plan["reason"]), ("kept" if reason else "quantized", reason))
            if not reason:
                self.assertEqual((plan["format"], plan["granularity"], plan["scale_rule"]), ("hif8", "tensor", "max"))

    def test_the_description_of_a_network(self):
        model = self.folder / "model"
        shutil.copytree(MODELS / "families" / "random-gpt-oss", model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "model_type": "mine"}))
        known = (ROOT / "lib/model/safetensors/arch/gpt_oss.yaml").read_text()
        (self.folder / "own.yaml").write_text(known)
        name = "model.layers.0.mlp.experts.down_proj"

        def plan(*args):
            found = self.inspect(model, "--recipe", "cast", *args)
            return {t["name"]: t["plan"] for t in found["tensors"]}[name], found["plan"]

        tensor, summary = plan()
        self.assertIn("without a description", tensor["reason"])
        self.assertIn("guessed by their names: model_type 'mine' is not known", summary["caveat"])
        tensor, summary = plan("--architecture", self.folder / "own.yaml")
        self.assertEqual((tensor["format"], tensor["granularity"]), ("hif8", "channel"))
        self.assertEqual(summary["caveat"], "")
        done = self.run_program("hif8-report", model, model, "--architecture", self.folder / "own.yaml", code=2)
        self.assertIn("--architecture is for inspect", done.stderr)

    def test_non_finite_and_other_types(self):
        write_file(self.folder / "a.safetensors", {
            "a.weight": ("F32", [2, 3], struct.pack("<6f", 1, -4, 0, math.inf, math.nan, 0.5)),
            "ids": ("I64", [1], bytes(8)),
        })  # fmt: skip
        a, ids = self.inspect(self.folder / "a.safetensors")["tensors"]
        self.assertEqual((a["amax"], a["zeros"], a["non_finite"]), (4, 1, 2))
        self.assertEqual(a["exponents"], {"-1": 1, "0": 1, "2": 1})
        self.assertEqual((ids["amax"], ids["unknown"]), (None, "I64 without scales"))

    def test_what_is_quantized_already(self):
        self.run_program("hif8-calibrate", MODELS / "random-qwen2", "-o", "q", "--recipe", "cast", "-q")
        found = self.inspect(self.folder / "q")
        original = self.inspect(MODELS / "random-qwen2")
        self.assertIn("the checkpoint is already quantized", found["plan"]["missing"])
        for now, then in zip(found["tensors"], original["tensors"], strict=True):
            self.assertEqual(now["name"], then["name"])
            self.assertAlmostEqual(now["rms"] / then["rms"], 1, delta=0.01)
        self.assertEqual({t["format"] for t in found["tensors"]}, {"", "hif8"})


@unittest.skipIf(sanitized(BIN / "hif8-report"), "the address sanitizer's memory counts as the program's")
class Memory(PairCase):
    """A tensor of 128 MiB, as a file with a hole, takes less than its values as fp32 would."""

    ROWS, COLUMNS = 8192, 8192

    def sparse(self, name, tensors):
        """A safetensors file whose tensors are all zero bytes."""
        header, at = {}, 0
        for tensor, (dtype, shape, size) in tensors.items():
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        path = self.folder / name
        path.write_bytes(struct.pack("<Q", len(text)) + text)
        os.truncate(path, 8 + len(text) + at)
        return path

    def peak(self, *args):
        """The most resident anonymous memory, in MiB, that was seen while the program ran."""
        process = subprocess.Popen([BIN / "hif8-report", *args, "-q", "--json"], stdout=subprocess.PIPE, text=True)
        most, out = 0, []
        reader = threading.Thread(target=lambda: out.append(process.stdout.read()))
        reader.start()
        while process.poll() is None:
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                break
            found = re.search(r"RssAnon:\s+(\d+) kB", status)
            most = max(most, int(found.group(1)) // 1024 if found else 0)
            time.sleep(0.005)
        process.wait()
        reader.join()
        process.stdout.close()
        self.assertEqual(process.returncode, 0, out)
        return most, json.loads(out[0])

    def test_pieces(self):
        size = self.ROWS * self.COLUMNS
        before = self.sparse("a.safetensors", {"x.weight": ("BF16", [self.ROWS, self.COLUMNS], 2 * size)})
        most, found = self.peak("inspect", before)
        self.assertEqual(found["tensors"][0]["zeros"], size)
        self.assertLess(most, 150)
        after = self.sparse("b.safetensors", {"x.weight": ("F16", [self.ROWS, self.COLUMNS], 2 * size)})
        most, found = self.peak(before, after)
        self.assertEqual(found["layers"][0]["status"], "kept")
        self.assertGreater(most, 5)  # else nothing was seen
        self.assertLess(most, 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
