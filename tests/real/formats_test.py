"""Every number format in an ONNX Runtime that is not ours, against numpy: formats_test.py ROOT BIN_DIR.

One product, quantized and run by npm's onnxruntime-node. No size is a multiple of a tile.
"""

import pathlib
import sys
import tempfile

import numpy as np
from number_formats import ALL, CHANNEL, TOKEN, nvfp4, quantized
from stock import calibrate, emit, stock_ort

# Format, more settings, tiles of the weight (outputs x inputs) and of the activation (tokens x inputs).
CASES = [
    ("mxfp4", [], (1, 32), (1, 32)),
    ("mxfp8", [], (1, 32), (1, 32)),
    ("mxfp8", ["weights.granularity=block"], (32, 32), (1, 32)),
    ("nvfp4", [], (1, 16), (1, 16)),
    ("fp8_e4m3_block", [], (128, 128), (1, 128)),
    ("fp8_e4m3", ["activations.granularity=token"], CHANNEL, TOKEN),
    ("fp8_e5m2", ["activations.granularity=group", "weights.granularity=group"], (1, 32), (1, 32)),
    ("int8", ["activations.granularity=token"], CHANNEL, TOKEN),
    ("int8", ["activations.granularity=block", "weights.granularity=tensor"], ALL, (1, 128)),
    ("hif8", ["activations.granularity=token"], CHANNEL, TOKEN),
]


def main():
    random = np.random.default_rng(1)
    w = random.normal(size=(70, 33)).astype(np.float32)
    x = random.standard_t(3, size=(6, 70)) * np.exp2(random.integers(-9, 9, size=(6, 1)))
    x = x.astype(np.float32)
    x[2] = 0
    product = [emit.node("MatMul", "x w", "y", "layer")]
    attention = [emit.node("Transpose", "x", "k"), emit.node("MatMul", "x k", "y", "scores")]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "y").mkdir()
        np.save(work / "x.npy", x)

        def error_of(graph, opset, options, expected):
            (work / "m.onnx").write_bytes(emit.model(graph, opset=opset))
            calibrate(work / "m.onnx", work / "out", *options, "--data", work / "x.npy")
            stock_ort("run", work / "out/model.onnx", work / "y", work / "x.npy")
            error = np.abs(np.load(work / "y/x.npy") - expected).max() / np.abs(expected).max()
            print(f"opset {opset}, {' '.join(options)}: largest error {error:.1e}{'  WRONG' if error > 1e-6 else ''}", flush=True)
            return error

        for opset in (9, 13, 17, 18, 21):
            for name, settings, weight_tile, activation_tile in CASES:
                target = 15 if name == "hif8" else None
                if name == "nvfp4":
                    xq, wq = nvfp4(x, True), nvfp4(w.T, False)
                else:
                    xq, wq = quantized(name, x, activation_tile, target), quantized(name, w.T, weight_tile)
                activations = [f"activations.format={name}", *(s for s in settings if s.startswith("activations"))]
                weights = [f"weights.format={name}", *(s for s in settings if s.startswith("weights"))]
                flags = lambda settings: [part for setting in settings for part in ("--set", setting)]
                graph = emit.Graph([emit.value("x", ["N", 70])], [emit.value("y", ["N", 33])], product, {"w": w})
                wrong += error_of(graph, opset, flags(activations + weights), xq @ wq.T) > 1e-6
                graph = emit.Graph([emit.value("x", ["N", "C"])], [emit.value("y", ["N", "N"])], attention)
                wrong += error_of(graph, opset, ["--attention", *flags(activations)], xq @ xq.T) > 1e-6
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
