"""No setting is ignored in silence, whatever the model: settings_cases_test.py HIF8_CALIBRATE."""

import os
import pathlib
import shutil
import unittest

import numpy as np
from onnx_emit import Graph, model, node, value
from onnx_program import X, Y, OnnxProgramCase, matmul

MODELS = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"
QWEN2, MOE = MODELS / "random-qwen2", MODELS / "random-qwen3-moe"


class SettingsCases(OnnxProgramCase):
    def refused(self, target, says, *args):
        """The command line is refused, in a dry run as well, and nothing is written."""
        for end in (["-o", "out"], ["--dry-run"]):
            done = self.run_program(target, *args, *end, code=2)
            for text in says:
                self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists("out"))

    def test_settings_that_an_onnx_model_has_nothing_for(self):
        pathlib.Path("m.onnx").write_bytes(matmul())
        data = ["--data", "x.npy"]
        for args, key, why in (
            (["--kv-cache", "max"], "kv_cache.rule", "no cache of its own"),
            (["--attention"], "attention", "multiplies no activations"),
            (["--set", "embeddings=true"], "embeddings", "no embedding table"),
            (["--set", "lm_head=true"], "lm_head", "as any other"),
            (["--set", "experts.route_all=true"], "experts.route_all", "no experts"),
            (["--set", "experts.min_rows=4"], "experts.min_rows", "no experts"),
            (["--set", "experts.rare=keep"], "experts.rare", "no experts"),
            (["--set", "propagate=quantized"], "propagate", "observed as a whole"),
            (["--layout", "cann"], "layout", "loaders of checkpoints"),
            (["--fused-groups", "error"], "fused_groups", "loaders of checkpoints"),
            (["--sequence-length", "64"], "data.sequence_length", "no text"),
        ):  # fmt: skip
            with self.subTest(key=key):
                self.refused("m.onnx", [f"{key}: ", why, "m.onnx"], *data, *args)
        # All at once.
        self.refused("m.onnx", ["kv_cache.rule: ", "; attention: "], *data, "--kv-cache", "max", "--attention")

    def test_settings_that_a_checkpoint_has_nothing_for(self):
        np.save("ids.npy", np.arange(40).reshape(1, 40))
        for args, key in (
            (["--batch", "2"], "data.batch"), (["--drop-last"], "data.drop_last"),
            (["--image-size", "48,48"], "data.image.size"), (["--image-mean", "1,1,1"], "data.image.mean"),
            (["--image-std", "2,2,2"], "data.image.std"), (["--image-layout", "nhwc"], "data.image.layout"),
            (["--image-channels", "gray"], "data.image.channels"), (["--set", "experts.rare=keep"], "experts.rare"),
        ):  # fmt: skip
            with self.subTest(key=key):
                self.refused(QWEN2, [f"{key}: "], "--data", "ids.npy", *args)
        says = ["made-up samples are for ONNX models", "'random:4'"]
        self.run_program(QWEN2, "--data", "random:4", "-o", "out", code=2, says=says)
        bare = QWEN2 / "model.safetensors"
        self.refused(bare, ["kv_cache.rule: ", "not known"], "--recipe", "cast", "--kv-cache", "max")
        self.refused(bare, ["attention: "], "--recipe", "cast", "--attention")

    def test_settings_with_something_to_work_on(self):
        both = Graph(X, Y, [node("MatMul", "x t", "y", "mm"), node("Transpose", "x", "t")][::-1])
        self.quantize(model(both), "--attention")
        self.run_program(MOE, "--dry-run", "--recipe", "cast", "--set", "experts.rare=keep")
        self.run_program(QWEN2, "--dry-run", "--kv-cache", "max", "--attention", "--set", "propagate=quantized")

    def test_settings_that_the_rest_of_the_recipe_leaves_idle(self):
        for args, says in (
            (["--percentile", "98"], "activations.percentile has no effect: activations.rule is not percentile"),
            (["--set", "weights.percentile=98"], "weights.percentile has no effect"),
            (["--set", "mse.octaves=2"], "mse.octaves has no effect: no rule is mse"),
            (["--activation-scale", "cast", "--set", "activations.clip=true"], "activations.clip has no effect"),
        ):  # fmt: skip
            self.assertIn(says, self.run_program_on(matmul(), *args).stderr)
        for args in (
            ["--percentile", "98", "--activation-scale", "percentile"], ["--set", "mse.octaves=2", "--weight-scale", "mse"],
            ["--percentile", "98", "--set", "overrides=[{match: mm, activations: {rule: percentile}}]"],
        ):  # fmt: skip
            self.assertNotIn("no effect", self.run_program_on(matmul(), *args).stderr)

    def test_outputs_that_a_run_cannot_give(self):
        pathlib.Path("m.onnx").write_bytes(matmul())
        run = ["m.onnx", "-o", "out"]
        self.run_program(*run, "--data", "x.npy", "--force")
        self.run_program("m.onnx", "--dry-run", "--fail-if", "coverage<0.5", code=2, says=["--fail-if needs a run"])
        self.run_program(*run, "--force", "--calibration", "out/calibration.yaml", "--stats-out", "s", code=2,
                         says=["--stats-out", "give one of them"])  # fmt: skip
        self.run_program(*run, "--force", "--recipe", "cast", "--stats-out", "s", code=2, says=["no data was given"])
        self.assertFalse(os.path.exists("s"))
        # A recipe that needs no scales saves statistics for one that does.
        self.run_program(*run, "--force", "--recipe", "cast", "--data", "x.npy", "--stats-out", "s")
        self.run_program("m.onnx", "-o", "from_stats", "--stats-in", "s")
        self.run_program("m.onnx", "-o", "from_data", "--data", "x.npy")
        models = [pathlib.Path(folder, "model.onnx").read_bytes() for folder in ("from_stats", "from_data")]
        self.assertEqual(models[0], models[1])

    def test_folders_that_are_no_checkpoint(self):
        os.mkdir("folder")
        pathlib.Path("folder/model.onnx").write_bytes(matmul())
        self.run_program("folder", "-o", "out", code=3, says=["expected *.safetensors", "give the file itself: folder/model.onnx"])
        os.remove("folder/model.onnx")
        self.run_program("folder", "-o", "out", code=3, says=["expected *.safetensors", "Hugging Face checkpoint"])

    def test_outputs_inside_of_the_checkpoint(self):
        shutil.copytree(QWEN2, "model")
        before = sorted(os.listdir("model"))
        for option, path in (("-o", "model/out"), ("-o", "./model/deep/out"), ("--stats-out", "model/s")):
            args = [option, path] if option == "-o" else ["-o", "out", option, path]
            self.run_program("model", "--recipe", "cast", *args, code=2, says=["lies in the model's folder", path])
        os.symlink("model", "link")
        self.run_program("model", "--recipe", "cast", "-o", "link/out", code=2, says=["lies in the model's folder"])
        self.run_program("link", "--recipe", "cast", "-o", "model/out", code=2, says=["lies in the model's folder"])
        self.assertEqual(sorted(os.listdir("model")), before)

    def test_log_files_that_cannot_be_written(self):
        os.mkdir("folder")
        pathlib.Path("file").write_bytes(b"")
        for path, reason in (("folder", "Is a directory"), ("file/log", "Not a directory")):
            done = self.run_program_on_log(path)
            self.assertIn(f"error: {path}: cannot write the log file: {reason}\n", done.stderr)
            self.assertIn("hint: choose another --log-file", done.stderr)

    def run_program_on_log(self, path):
        pathlib.Path("m.onnx").write_bytes(matmul())
        return self.run_program("m.onnx", "--data", "x.npy", "-o", "out", "--log-file", path, code=4)

    def test_graphs_that_are_nested_deep(self):
        def nested(levels):
            graph = Graph([], [value("o", None)], [node("MatMul", "x w", "o", "inner")], {"w": np.ones((4, 3), "f4")})
            for level in range(levels):
                branch = [node("If", "c", "o", f"if{level}", then_branch=graph, else_branch=graph if level == 0 else empty)]
                graph = Graph([], [value("o", None)], branch)
            graph.inputs, graph.tensors = X, [*graph.tensors, *Graph(weights={"c": np.array(True)}).tensors]
            return model(graph)

        empty = Graph([], [value("o", None)], [node("Identity", "x", "o")])
        self.quantize(nested(1))
        self.quantize(nested(50), code=3, says=["nested too deep", "m.onnx"])


if __name__ == "__main__":
    unittest.main(argv=["settings_cases_test.py"])
