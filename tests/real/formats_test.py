"""Every number format in an ONNX Runtime that is not ours, against numpy: formats_test.py ROOT BIN_DIR.

One product, quantized and run by npm's onnxruntime-node. No size is a multiple of a tile.
"""

import pathlib
import sys
import tempfile

import numpy as np
from number_formats import ALL, CHANNEL, TOKEN, quantized
from stock import calibrate, emit, stock_ort

# Format, more settings, tiles of the weight (outputs x inputs) and of the activation (tokens x inputs).
CASES = [
    ("mxfp4", [], (1, 32), (1, 32)),
    ("mxfp8", [], (1, 32), (1, 32)),
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
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "y").mkdir()
        np.save(work / "x.npy", x)
        inputs, outputs = [emit.value("x", ["N", 70])], [emit.value("y", ["N", 33])]
        graph = emit.Graph(inputs, outputs, [emit.node("MatMul", "x w", "y", "layer")], {"w": w})
        for opset in (9, 13, 17, 18, 21):
            (work / "m.onnx").write_bytes(emit.model(graph, opset=opset))
            for number_format, settings, weight_tile, activation_tile in CASES:
                settings = [f"weights.format={number_format}", f"activations.format={number_format}", *settings]
                flags = [part for setting in settings for part in ("--set", setting)]
                calibrate(work / "m.onnx", work / "out", *flags, "--data", work / "x.npy")
                stock_ort("run", work / "out/model.onnx", work / "y", work / "x.npy")
                token = 15 if number_format == "hif8" else None
                expected = quantized(number_format, x, activation_tile, token) @ quantized(number_format, w.T, weight_tile).T
                error = np.abs(np.load(work / "y/x.npy") - expected).max() / np.abs(expected).max()
                wrong += error > 1e-6
                print(f"opset {opset}, {', '.join(settings)}: largest error {error:.1e}{'  WRONG' if error > 1e-6 else ''}")
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
