"""Layers that loaders run as one have one scheme: fused_groups_test.py HIF8_CALIBRATE DATA_DIR."""

import json
import pathlib
import re
import sys
import unittest

from program_case import CalibrateCase

MODELS = pathlib.Path(sys.argv[2]).resolve() / "models"
NOTICE = "what loaders run as one was given several schemes and has one now"


class FusedGroupsTest(CalibrateCase):
    def plan(self, model, *args, code=0, says=(), quiet=True):
        """{layer: (weight, input) or None for kept}, the reasons, and what was said."""
        recipe = () if "--recipe" in args else ("--recipe", "cast")
        done = self.run_program(MODELS / model, "--dry-run", "--json", *recipe, *args, code=code, says=says)
        if code:
            return None
        layers = json.loads(done.stdout)["layers"]
        scheme = lambda operand: operand and tuple(operand[key] for key in ("format", "granularity", "scale_rule"))
        found = {
            row["name"]: None if row["status"] == "kept" else (scheme(row["weight"]), scheme(row["activation"])) for row in layers
        }
        self.assertEqual(NOTICE in done.stderr, not quiet)
        return found, {row["name"]: row["reason"] for row in layers}

    def kept(self, plan):
        return {re.sub(r"\d+", "N", name) for name, how in plan[0].items() if how is None}

    def test_whole_recipes_change_nothing(self):
        for recipe in "cast", "pangu-qat", "w4a8-moe":
            self.plan("random-qwen3-moe", "--recipe", recipe, "--set", "high_precision_layers=1")

    def test_what_keeps_one_keeps_all(self):
        before = self.kept(self.plan("random-qwen2"))
        plan = self.plan("random-qwen2", "--keep", r"layers\.0\.self_attn\.q_proj", "--keep", "up_proj", quiet=False)
        stays = {name for name, how in plan[0].items() if how is None and re.sub(r"\d+", "N", name) not in before}
        expected = {f"model.layers.0.self_attn.{p}_proj" for p in "qkv"}
        blocks = {name.split(".")[2] for name in plan[0] if name.startswith("model.layers.")}
        expected |= {f"model.layers.{b}.mlp.{p}_proj" for b in blocks for p in ("gate", "up")}
        self.assertEqual(stays, expected)
        self.assertEqual(
            plan[1]["model.layers.0.self_attn.v_proj"],
            "loaders run it as one with 'model.layers.0.self_attn.q_proj', which stays: "
            r"matches keep 'layers\.0\.self_attn\.q_proj'",
        )

    def test_only_takes_the_whole(self):
        plan = self.plan("random-qwen2", "--only", "k_proj", quiet=False)
        quantized = {name.split(".")[-1] for name, how in plan[0].items() if how}
        self.assertEqual(quantized, {"q_proj", "k_proj", "v_proj"})

    def test_an_override_is_for_the_whole(self):
        override = "overrides=[{match: 'q_a_proj|experts.3.down', weights: {format: int8}}]"
        plan = self.plan("random-deepseek-v3-fp8", "--set", override, quiet=False)
        for name, how in plan[0].items():
            if how is None:
                continue
            whole = ".experts." in name or name.endswith(("q_a_proj", "kv_a_proj_with_mqa"))
            self.assertEqual(how[0][0], "int8" if whole else "hif8", name)

    def test_how_a_scale_is_chosen_is_no_scheme(self):
        plan = self.plan("random-qwen2", "--set", "overrides=[{match: q_proj, weights: {rule: mse}}]")
        self.assertEqual(plan[0]["model.layers.0.self_attn.q_proj"][0], ("hif8", "channel", "mse"))
        self.assertEqual(plan[0]["model.layers.0.self_attn.k_proj"][0], ("hif8", "channel", "max"))

    def test_names_alone_are_enough(self):
        config = json.loads((MODELS / "random-qwen2" / "config.json").read_text())
        (self.folder / "m").mkdir()
        for path in (MODELS / "random-qwen2").iterdir():
            (self.folder / "m" / path.name).symlink_to(path)
        (self.folder / "m" / "config.json").unlink()
        (self.folder / "m" / "config.json").write_text(json.dumps({**config, "model_type": "nobody-knows"}))
        plan = self.plan(self.folder / "m", "--keep", "q_proj", quiet=False)
        self.assertIn("model.layers.N.self_attn.v_proj", self.kept(plan))

    def test_error_and_ignore(self):
        args = ("--keep", "q_proj")
        self.plan("random-qwen2", *args, "--fused-groups", "error", code=2,
                  says=["'model.layers.0.self_attn.qkv_proj'", "match all layers of a module", "--fused-groups"])  # fmt: skip
        kept = self.kept(self.plan("random-qwen2", *args, "--set", "fused_groups=ignore"))
        self.assertIn("model.layers.N.self_attn.q_proj", kept)
        self.assertNotIn("model.layers.N.self_attn.k_proj", kept)

    def test_experts_that_saw_nothing(self):
        # One token: most experts see no row.
        data = ("--data", self.ids([7, 8]), "--set", "experts.min_rows=0", "--set", "experts.rare=keep")
        report = self.quantize(MODELS / "random-qwen3-moe", *data)
        by_block = {}
        for layer in report["layers"]:
            if ".experts." in layer["name"]:
                by_block.setdefault(layer["name"].split(".")[2], set()).add(layer["status"])
        self.assertEqual(list(by_block.values()), [{"kept"}] * len(by_block))
        self.assertTrue(any("loaders run it as one with" in warning for warning in report["run"]["warnings"]))
        # The recipe and the scales that were written make the same plan.
        again = self.quantize(
            MODELS / "random-qwen3-moe", "--recipe", self.out / "recipe.yaml", "--calibration", self.out / "calibration.yaml",
        )  # fmt: skip
        self.assertEqual([l["status"] for l in again["layers"]], [l["status"] for l in report["layers"]])
        self.run_program(MODELS / "random-qwen3-moe", *data, "-o", self.out, "--force", "--fused-groups", "error", code=2)

    def test_a_goal_keeps_modules(self):
        data = self.ids(range(40), range(50, 90))
        report = self.quantize(MODELS / "random-qwen2", "--data", data, "--auto", "network_sqnr>=30")
        self.assertTrue(report["auto"]["met"] and report["auto"]["kept"])
        quantized = {layer["name"]: layer["status"] == "quantized" for layer in report["layers"]}
        for block in {name.split(".")[2] for name in quantized if name.startswith("model.layers.")}:
            for parts in (["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], ["mlp.gate_proj", "mlp.up_proj"]):
                self.assertEqual(len({quantized[f"model.layers.{block}.{part}"] for part in parts}), 1, (block, parts))
        ranked = [entry["layer"] for entry in report["auto"]["ranking"]]
        self.assertFalse([name for name in ranked if name.endswith(("k_proj", "v_proj", "up_proj"))])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
