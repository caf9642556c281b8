"""Runs hif8-calibrate on checkpoints: checkpoint_test.py HIF8_CALIBRATE DATA_DIR.

What it writes is read back with nothing but Python's standard library: the safetensors format by its
definition, codes by the golden table.
"""

import csv
import json
import math
import pathlib
import re
import shutil
import struct
import sys
import unittest

from plain_files import floats, read_file, sanitized, sqnr
from program_case import PROGRAM, CalibrateCase

DATA = pathlib.Path(sys.argv[2])
MODELS = DATA / "models"


def values_table():
    with open(DATA / "golden" / "hif8_values.csv", newline="", encoding="utf-8") as file:
        return [float(row["value"]) for row in csv.DictReader(file)]


TABLE = values_table()


class CheckpointTest(CalibrateCase):
    def copy_of(self, model):
        copy = self.folder / model
        shutil.copytree(MODELS / model, copy)
        return copy

    def check_exponents(self, values, reported):
        """The histogram and HiF8's bands, as hif8-format.md has them: 4 bits to |e| = 3, 3 to 7, 2 to 15, 1 below."""
        exponents = [math.frexp(v)[1] - 1 for v in values if v != 0]
        counts = [exponents.count(e) for e in range(min(exponents), max(exponents) + 1)]
        self.assertEqual((reported["first"], reported["counts"]), (min(exponents), counts))
        self.assertEqual(reported["zeros"], len(values) - len(exponents))
        bits = [4 - (abs(e) > 3) - (abs(e) > 7) - (abs(e) > 15) for e in exponents if -22 <= e <= 15]
        self.assertEqual([band["bits"] for band in reported["bands"]], [4, 3, 2, 1])
        for band in reported["bands"]:
            self.assertAlmostEqual(band["share"], bits.count(band["bits"]) / len(values), delta=1e-12)
        self.assertAlmostEqual(reported["below"], sum(e < -22 for e in exponents) / len(values), delta=1e-12)
        self.assertAlmostEqual(reported["above"], sum(e > 15 for e in exponents) / len(values), delta=1e-12)

    def check_weights(self, model, report):
        """Every weight SQNR of the report, from the written bytes alone."""
        checked = 0
        sources = {}
        written = {}
        for path in sorted(model.glob("model*.safetensors")):
            sources.update(read_file(path)[0])
            tensors, metadata = read_file(self.out / path.name)
            self.assertEqual(metadata, {"format": "pt"})
            written.update(tensors)
        for layer in report["layers"]:
            if layer["status"] != "quantized" or layer["weight"] is None:
                continue
            name = layer["name"] + ".weight"
            dtype, shape, codes = written[name]
            self.assertEqual((dtype, shape), ("U8", sources[name][1]))
            scales = floats(written[name + "_scale"])
            self.assertEqual(written[name + "_scale"][1], [shape[0], 1])
            x = floats(sources[name])
            y = [TABLE[c] * scales[i // shape[1]] for i, c in enumerate(codes)]
            self.assertAlmostEqual(sqnr(x, y), layer["weight"]["sqnr_db"], delta=0.01, msg=name)
            scaled = [struct.unpack("f", struct.pack("f", v / scales[i // shape[1]]))[0] for i, v in enumerate(x)]
            self.check_exponents(x, layer["weight"]["exponents_before"])
            self.check_exponents(scaled, layer["weight"]["exponents_after"])
            for row in range(0, shape[0], 17):
                amax = max(abs(v) for v in x[row * shape[1] : (row + 1) * shape[1]])
                self.assertEqual(scales[row], struct.unpack("f", struct.pack("f", amax / 16))[0])
            checked += 1
        for name, tensor in sources.items():
            if name + "_scale" not in written:
                self.assertEqual(written[name], tensor, name)
        return checked

    def test_cast_is_read_back_to_the_reported_errors(self):
        model = MODELS / "random-llama"
        report = self.quantize(model, "--recipe", "cast")
        self.assertEqual(self.check_weights(model, report), 21)
        config = json.loads((self.out / "config.json").read_text())
        quantization = config.pop("quantization_config")
        self.assertEqual(list(config.items()), list(json.loads((model / "config.json").read_text()).items()))
        group = quantization["config_groups"]["group_0"]
        self.assertEqual(group["targets"], ["Linear"])
        self.assertTrue(group["input_activations"]["dynamic"])
        self.assertEqual(quantization["ignore"], ["lm_head"])
        self.assertIsNone(quantization["kv_cache_scheme"])
        index = json.loads((self.out / "model.safetensors.index.json").read_text())
        names = {}
        total = 0
        for path in self.out.glob("model*.safetensors"):
            for name, (_, _, data) in read_file(path)[0].items():
                names[name] = path.name
                total += len(data)
                self.assertFalse(name.endswith("input_scale"))
        self.assertEqual(index["weight_map"], names)
        self.assertEqual(index["metadata"]["total_size"], total)
        self.assertEqual((self.out / "reference.json").read_bytes(), (model / "reference.json").read_bytes())

    def test_static_scales_and_cache_are_written(self):
        model = MODELS / "random-pangu-embedded"
        reference = json.loads((model / "reference.json").read_text())["input_amax"]
        tensors, _ = read_file(model / "reference.safetensors")
        _, shape, data = tensors["input_ids"]
        flat = struct.unpack(f"<{len(data) // 8}q", data)
        ids = self.ids(*[flat[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])])
        report = self.quantize(model, "--data", ids, "--kv-cache", "max")
        self.assertEqual(self.check_weights(model, report), 35)
        written, _ = read_file(self.out / "model.safetensors")
        for layer, amax in reference.items():
            dtype, shape, _ = written[layer + ".input_scale"]
            self.assertEqual((dtype, shape), ("F32", [1]))
            scale = floats(written[layer + ".input_scale"])[0]
            self.assertAlmostEqual(scale * 16 / amax, 1, delta=1e-4, msg=layer)
        for block in range(5):
            for which in "kv":
                dtype, shape, _ = written[f"model.layers.{block}.self_attn.{which}_scale"]
                self.assertEqual((dtype, shape), ("F32", [1]))
        order = list(written)
        self.assertEqual(
            order[order.index("model.layers.0.self_attn.k_proj.weight") :][:4],
            [f"model.layers.0.self_attn.k_{n}" for n in
             ("proj.weight", "proj.weight_scale", "proj.input_scale", "scale")],
        )
        quantization = json.loads((self.out / "config.json").read_text())["quantization_config"]
        self.assertFalse(quantization["config_groups"]["group_0"]["input_activations"]["dynamic"])
        self.assertEqual(quantization["kv_cache_scheme"]["dynamic"], False)
        self.assertEqual(len(report["kv_cache"]), 5)
        loss = json.loads((model / "reference.json").read_text())["loss"]
        self.assertAlmostEqual(math.log(report["network"]["perplexity"]["original"]), loss, delta=1e-4)

    def test_one_plan_decides_what_is_kept(self):
        model = MODELS / "random-pangu-embedded"
        args = ["--recipe", "pangu-qat", "--high-precision-layers", "2", "--keep", r"layers\.2\.mlp\.up"]
        plan = json.loads(self.run_program(model, *args, "--dry-run", "--json").stdout)
        self.assertNotEqual(plan, {})
        report = self.quantize(model, *args, "--data", self.ids(range(40), range(50, 90)))
        quantized = {l["name"] for l in report["layers"] if l["status"] == "quantized"}
        self.assertEqual(quantized, {
            f"model.layers.{b}.mlp.{p}_proj" for b in (1, 2, 3) for p in ("gate", "up", "down")
        } - {"model.layers.2.mlp.up_proj", "model.layers.2.mlp.gate_proj"})
        sources, _ = read_file(model / "model.safetensors")
        written, _ = read_file(self.out / "model.safetensors")
        ignore = json.loads((self.out / "config.json").read_text())["quantization_config"]["ignore"]
        linear = {n[:-7] for n, t in sources.items() if n.endswith("_proj.weight")} | {"lm_head"}
        self.assertEqual(set(ignore), linear - quantized)
        for module in linear - quantized:
            self.assertEqual(written[module + ".weight"], sources[module + ".weight"])

    def test_experts_that_saw_few_rows(self):
        model = MODELS / "random-qwen3-moe"
        few = self.ids([1, 2, 3, 4])

        def scales():
            written, _ = read_file(self.out / "model.safetensors")
            return {n[:-12]: floats(t)[0] for n, t in written.items() if n.endswith(".input_scale")}

        def expert(block, number, part):
            return f"model.layers.{block}.mlp.experts.{number}.{part}_proj"

        report = self.quantize(model, "--data", few)
        notes = {l["name"]: l["activation"]["notes"] for l in report["layers"] if l["activation"]}
        found = scales()
        self.assertTrue(all(v > 0 and math.isfinite(v) for v in found.values()))
        for part in ("gate", "up", "down"):
            # Four tokens are fewer than 32: every expert of a block has the scale of all together.
            self.assertEqual(len({found[expert(0, e, part)] for e in range(8)}), 1)
            self.assertIn("fewer than 32", notes[expert(0, 3, part)][0])
        self.assertEqual(found[expert(0, 3, "gate")], max(found[expert(0, e, "gate")] for e in range(8)))

        self.quantize(model, "--data", few, "--set", "experts.min_rows=0", "--set", "experts.rare=keep",
                      "--fused-groups", "ignore")  # fmt: skip
        some = scales()
        kept = {expert(b, e, "up") for b in (0, 2) for e in range(8)} - set(some)
        self.assertTrue(0 < len(kept) < 16)
        ignore = json.loads((self.out / "config.json").read_text())["quantization_config"]["ignore"]
        self.assertLessEqual(kept, set(ignore))

        done = self.run_program(model, "-o", self.out, "--force", "--data", few, "--set",
                                "experts.rare=error", code=3)
        self.assertRegex(done.stderr, r"expert 'model\.layers\.0\.mlp\.experts\.0\.\w+' saw 0 rows")

        self.quantize(model, "--data", few, "--set", "experts.min_rows=4", "--set", "experts.route_all=true")
        everywhere = scales()
        # Every expert of a block reads the same rows now, and none is rare.
        self.assertEqual(len({everywhere[expert(0, e, "gate")] for e in range(8)}), 1)
        self.assertEqual(len({everywhere[expert(0, e, "down")] for e in range(8)}), 8)

    def test_latent_cache_scales(self):
        self.quantize(MODELS / "random-deepseek-v3-fp8", "--data", self.ids(range(40), range(40, 80)),
                      "--kv-cache", "max")
        written, _ = read_file(self.out / "model.safetensors")
        for block in range(3):
            for name in ("kv_latent", "k_rope"):
                tensor = written[f"model.layers.{block}.self_attn.{name}_scale"]
                self.assertEqual(tensor[:2], ("F32", [1]))
                self.assertGreater(floats(tensor)[0], 0)

    def test_captured_activations_need_no_graph(self):
        model = self.copy_of("random-qwen2")
        config = json.loads((model / "config.json").read_text())
        config["model_type"] = "newest"
        (model / "config.json").write_text(json.dumps(config))
        captured = self.folder / "captured"
        captured.mkdir()
        sources, _ = read_file(model / "model.safetensors")
        names = [n[:-7] for n in sources if n.endswith("_proj.weight")]
        for sample in range(2):
            header, data = {}, b""
            for i, name in enumerate(names):
                values = struct.pack("<3f", i + sample, -i, 0.5)
                header[name] = {"dtype": "F32", "shape": [1, 3], "data_offsets": [len(data), len(data) + 12]}
                data += values
            text = json.dumps(header).encode()
            (captured / f"{sample}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        report = self.quantize(model, "--activations", captured)
        written, _ = read_file(self.out / "model.safetensors")
        for i, name in enumerate(names):
            self.assertEqual(floats(written[name + ".input_scale"])[0],
                             struct.unpack("f", struct.pack("f", (i + 1) / 16))[0])
        self.assertEqual(report["run"]["data"]["samples"], 2)
        first = self.quantize(model, "--activations", captured, "--samples", 1)
        self.assertEqual(first["run"]["data"]["samples"], 1)
        written, _ = read_file(self.out / "model.safetensors")
        self.assertEqual(floats(written[names[5] + ".input_scale"])[0], 5 / 16)
        done = self.run_program(model, "-o", self.out, "--force", "--activations", captured,
                                "--data", self.ids([1, 2]), code=2)
        self.assertIn("--activations", done.stderr)

    def test_propagated_statistics_differ(self):
        model = MODELS / "random-llama"
        ids = self.ids(range(40), range(50, 90))
        scales = []
        for value in ("original", "quantized"):
            self.quantize(model, "--data", ids, "--set", f"propagate={value}")
            written = {}
            for path in sorted(self.out.glob("model*.safetensors")):
                written.update(read_file(path)[0])
            scales.append({n: floats(t)[0] for n, t in written.items() if n.endswith("input_scale")})
        first, last = ("model.layers.%d.self_attn.q_proj.input_scale" % b for b in (0, 2))
        self.assertEqual(scales[0][first], scales[1][first])
        self.assertNotEqual(scales[0][last], scales[1][last])
        self.assertAlmostEqual(scales[0][last] / scales[1][last], 1, delta=0.25)

    def test_bf16_scales(self):
        self.quantize(MODELS / "random-qwen2", "--recipe", "cast", "--set", "weights.scale_dtype=bf16")
        written, _ = read_file(self.out / "model.safetensors")
        scales = [t for n, t in written.items() if n.endswith("_scale")]
        self.assertEqual({t[0] for t in scales}, {"BF16"})
        self.assertEqual(len(scales), 21)

    def test_fp8_in_hif8_out(self):
        report = self.quantize(MODELS / "random-deepseek-v3-fp8", "--recipe", "cast", "--keep", "shared_experts")
        written, _ = read_file(self.out / "model.safetensors")
        self.assertEqual({t[0] for t in written.values()}, {"U8", "BF16", "F32"})
        self.assertFalse([n for n in written if n.endswith("scale_inv")])
        self.assertEqual(written["model.layers.1.mlp.shared_experts.up_proj.weight"][0], "BF16")
        quantization = json.loads((self.out / "config.json").read_text())["quantization_config"]
        self.assertEqual(quantization["quant_method"], "compressed-tensors")
        self.assertIn("model.layers.1.mlp.gate", quantization["ignore"])
        self.assertGreater(report["coverage"]["parameters"], 0.8)

    def test_simulated_is_a_plain_checkpoint(self):
        model = MODELS / "random-mistral-window"
        self.quantize(model, "--recipe", "cast", "--export", "simulated")
        written, _ = read_file(self.out / "model.safetensors")
        sources, _ = read_file(model / "model.safetensors")
        self.assertEqual([(n, t[:2]) for n, t in written.items()], [(n, t[:2]) for n, t in sources.items()])
        self.assertNotIn("quantization_config", json.loads((self.out / "config.json").read_text()))
        name = "model.layers.0.mlp.up_proj.weight"
        self.assertNotEqual(written[name], sources[name])
        self.assertGreater(sqnr(floats(sources[name]), floats(written[name])), 30)

    def test_a_bare_file(self):
        self.quantize(MODELS / "random-qwen2" / "model.safetensors")
        written, _ = read_file(self.out / "model.safetensors")
        self.assertEqual(written["model.layers.0.mlp.up_proj.weight"][0], "U8")

    @unittest.skipIf(sanitized(PROGRAM), "the address sanitizer's memory counts as the program's")
    def test_what_does_not_fit_into_memory_is_named_before_any_work(self):
        model = MODELS / "random-qwen3-moe"
        data = ("--data", self.ids(range(40), range(40, 80)))
        self.expect_error(model, 4, "block 'model.layers.", "40 rows", "give --memory-limit",
                          args=(*data, "--memory-limit", "65M"))
        self.expect_error(model, 2, "--memory-limit", "'much'", args=(*data, "--memory-limit", "much"))
        self.expect_error(model, 4, "tensor 'model.layers.0.", "codes",
                          args=("--recipe", "cast", "--memory-limit", "64M"))
        for limit in ("80M", "4G"):
            self.quantize(model, *data, "--memory-limit", limit)
            written = (self.out / "model.safetensors").read_bytes()
            report = json.loads((self.out / "report.json").read_text())
            del report["run"]
            if limit == "80M":
                expected = (written, report)
        self.assertEqual((written, report), expected)
        # What the error asks for is enough, also to measure two networks side by side.
        data = ("--data", self.ids([i % 256 for i in range(600)]))
        told = self.run_program(model, "-o", self.out, "--force", *data, "--memory-limit", "65M", code=4).stderr
        self.quantize(model, *data, "--memory-limit", re.search(r"give --memory-limit (\S+) or more", told)[1])

    def test_same_bytes_for_any_number_of_threads(self):
        files = []
        for threads in (1, 2):
            self.quantize(MODELS / "random-llama", "--recipe", "cast", "--threads", threads)
            files.append([p.read_bytes() for p in sorted(self.out.glob("*.safetensors*"))])
        self.assertEqual(files[0], files[1])

    def test_every_tensor_and_side_file_is_in_the_output(self):
        model = self.copy_of("random-qwen2")
        path = model / "model.safetensors"
        tensors, _ = read_file(path)
        tensors["vision.patch_embed.proj.weight"] = ("F32", [2, 1, 2, 2], bytes(32))
        tensors["counter"] = ("I64", [1], bytes(8))
        header, data = {"__metadata__": {}}, b""
        for name, (dtype, shape, content) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        (model / "modeling_x.py").write_text("print()\n")
        (model / "chat").mkdir()
        (model / "chat" / "template.jinja").write_text("{{ x }}")
        self.quantize(model, "--recipe", "cast")
        written, metadata = read_file(self.out / "model.safetensors")
        self.assertEqual(metadata, {})
        self.assertEqual([n for n in written if not n.endswith("_scale")], list(tensors))
        self.assertEqual(written["vision.patch_embed.proj.weight"], tensors["vision.patch_embed.proj.weight"])
        self.assertEqual((self.out / "modeling_x.py").read_text(), "print()\n")
        self.assertEqual((self.out / "chat" / "template.jinja").read_text(), "{{ x }}")

    def expect_error(self, model, code, *parts, args=("--recipe", "cast")):
        done = self.run_program(model, "-o", self.out, *args, code=code)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual([p.name for p in self.folder.glob("*out*")], [], "something was left behind")

    def test_damaged_files_are_one_clear_error(self):
        good = (MODELS / "random-qwen2" / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", good[:8])
        header = json.loads(good[8 : 8 + length])
        name = "model.layers.0.mlp.up_proj.weight"
        path = self.folder / "x.safetensors"

        def damaged(change):
            changed = json.loads(json.dumps(header))
            change(changed[name])
            text = json.dumps(changed).encode()
            path.write_bytes(struct.pack("<Q", len(text)) + text + good[8 + length :])

        path.write_bytes(good[: len(good) // 2])
        self.expect_error(path, 3, "not inside the data section", "x.safetensors")
        path.write_bytes(struct.pack("<Q", 1 << 60) + good[8:])
        self.expect_error(path, 3, "header length")
        damaged(lambda t: t.update(shape=[1 << 40, 1 << 40]))
        self.expect_error(path, 3, name, "offset", "does not match")
        damaged(lambda t: t.update(shape=[3, 3]))
        self.expect_error(path, 3, name, "offset", "[3, 3]")
        damaged(lambda t: t.update(data_offsets=[0, t["data_offsets"][1] - t["data_offsets"][0]]))
        self.expect_error(path, 3, "overlaps")
        damaged(lambda t: t.update(data_offsets=[t["data_offsets"][0], 1 << 50]))
        self.expect_error(path, 3, name, "not inside")
        path.write_bytes(struct.pack("<Q", 2) + b"{}")
        self.expect_error(path, 3, "no layer can be quantized")
        path.write_bytes(struct.pack("<Q", 19) + b'{"__metadata__":{}}')
        self.expect_error(path, 3, "no layer can be quantized")

    def test_already_quantized_is_refused(self):
        model = self.copy_of("random-qwen2")
        config = json.loads((model / "config.json").read_text())
        for method in ("gptq", "awq", "bitsandbytes"):
            config["quantization_config"] = {"quant_method": method}
            (model / "config.json").write_text(json.dumps(config))
            self.expect_error(model, 3, "already quantized", method)
        done = self.folder / "done"
        self.run_program(MODELS / "random-qwen2", "-o", done, "--recipe", "cast")
        self.expect_error(done, 3, "already quantized", "hif8")

    def test_data_and_architectures(self):
        model = self.copy_of("random-qwen2")
        data = ("--data", self.ids([1, 2, 3], [4, 5, 256]))
        self.expect_error(model, 3, "sample 1, position 2", "256", args=data)
        config = json.loads((model / "config.json").read_text())
        config["model_type"] = "newest"
        (model / "config.json").write_text(json.dumps(config))
        self.expect_error(model, 3, "'newest'", "llama, ", "mistral, ", args=("--data", self.ids([1, 2])))
        self.quantize(model, "--recipe", "cast")
        self.expect_unmatched(model)

    def expect_unmatched(self, model):
        done = self.run_program(model, "-o", self.folder / "x", "--recipe", "cast", "--keep", "layers.9", code=2)
        self.assertIn("layers.9", done.stderr)
        self.assertIn("near", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
