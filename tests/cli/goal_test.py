"""--auto and --delayed-study on a checkpoint: goal_test.py HIF8_CALIBRATE DATA_DIR.

Files are read with nothing but Python's standard library.
"""

import json
import pathlib
import sys
import unittest

from plain_files import read_file
from program_case import CalibrateCase

DATA = pathlib.Path(sys.argv[2])
MODELS = DATA / "models"


class GoalTest(CalibrateCase):
    def attempt(self, model, *args, code):
        return self.run_program(model, "-o", self.out, "--force", "-q", *args, code=code)

    def test_a_goal_is_met_by_what_was_written(self):
        model = MODELS / "random-llama"
        ids = self.ids([1, 5, 9, 2, 7, 3, 8, 4], [6, 6, 1, 0, 2, 9, 5, 3])
        plain = self.quantize(model, "--data", ids)["network"]["outputs"][0]["sqnr_db"]
        goal = f"network_sqnr>={plain + 2:.2f}"
        report = self.quantize(model, "--data", ids, "--auto", goal)
        auto = report["auto"]
        kept = [entry["layer"] for entry in auto["kept"]]
        self.assertTrue(auto["met"])
        self.assertEqual(auto["plain"], plain)
        self.assertGreaterEqual(auto["result"], plain + 2)
        self.assertEqual(auto["result"], report["network"]["outputs"][0]["sqnr_db"])
        self.assertAlmostEqual(auto["result"], auto["kept"][-1]["after"], delta=0.01)
        self.assertTrue(0 < len(kept) < len(auto["ranking"]), kept)
        self.assertEqual({e["samples"] for e in auto["ranking"]}, {2})
        source, written = {}, {}
        for path in model.glob("model*.safetensors"):
            source.update(read_file(path)[0])
            written.update(read_file(self.out / path.name)[0])
        for layer in report["layers"]:
            name = layer["name"] + ".weight"
            if layer["name"] in kept:
                self.assertEqual(layer["status"], "kept")
                self.assertIn(goal, layer["reason"])
                self.assertEqual(written[name], source[name])
            elif layer["name"] in [e["layer"] for e in auto["ranking"]]:
                self.assertEqual(written[name][0], "U8")
        # The recipe names the layers and makes the same files without the search.
        files = {p.name: p.read_bytes() for p in self.out.glob("*") if p.name != "report.json"}
        recipe = self.folder / "recipe.yaml"
        recipe.write_bytes(files["recipe.yaml"])
        again = self.quantize(model, "--data", ids, "--recipe", recipe)
        self.assertEqual(again["network"], report["network"])
        self.assertIsNone(again["auto"])
        for name, content in files.items():
            self.assertEqual((self.out / name).read_bytes(), content, name)

    def test_a_goal_out_of_reach(self):
        ids = self.ids([1, 5, 9, 2])
        done = self.attempt(
            MODELS / "random-llama", "--data", ids, "--auto", "loss_gap<=-90", code=1
        )
        self.assertIn("not met: the best that was found has", done.stderr)
        auto = json.loads((self.out / "report.json").read_text())["auto"]
        self.assertFalse(auto["met"])
        self.assertEqual(auto["metric"], "loss_gap_percent")
        self.assertLessEqual(auto["result"], auto["plain"])

    def test_delayed_scaling_is_replayed_during_the_pass(self):
        model = MODELS / "random-llama"
        ids = self.ids(*[[(7 * i + 3 * k) % 90 for k in range(8)] for i in range(12)])
        options = ["--data", ids, "--recipe", "cast", "--set", "delayed.interval=1"]
        study = self.quantize(model, *options, "--delayed-study")["delayed_study"]
        self.assertEqual((study["history"], study["interval"]), (64, 1))
        rows = {(row["layer"], row["rule"]): row for row in study["rules"]}
        layer = "model.layers.0.mlp.down_proj"
        for rule in ("most_recent", "exp_smooth", "max", "current"):
            self.assertEqual(rows[layer, rule]["steps"], 12)
        self.assertEqual(rows[layer, "current"]["exceeded_steps"], 0)
        self.assertGreaterEqual(
            rows[layer, "most_recent"]["exceeded_elements"], rows[layer, "max"]["exceeded_elements"]
        )
        self.assertGreater(rows[layer, "max"]["exceeded_steps"], 0)
        self.assertEqual({entry["rule"] for entry in study["ranking"]}, {rule for _, rule in rows})
        state = (self.out / "delayed_state.yaml").read_text()
        self.assertIn("step: 12", state)
        self.assertIn(layer + ".input", state)
        # The same rows and bytes for another number of threads; nothing without the option.
        again = self.quantize(model, *options, "--delayed-study", "--threads", "1")
        self.assertEqual(again["delayed_study"], study)
        self.assertEqual((self.out / "delayed_state.yaml").read_text(), state)
        self.assertIsNone(self.quantize(model, *options)["delayed_study"])
        self.assertFalse((self.out / "delayed_state.yaml").exists())

    def test_a_study_needs_a_pass(self):
        model = MODELS / "random-llama"
        ids = self.ids([1, 5, 9, 2])
        self.quantize(model, "--data", ids, "--stats-out", self.folder / "s")
        done = self.attempt(
            model, "--stats-in", self.folder / "s", "--delayed-study", code=2
        )
        self.assertIn("leave out --stats-in", done.stderr)
        done = self.attempt(model, "--recipe", "cast", "--delayed-study", code=2)
        self.assertIn("give --data", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
