"""Every number format in an ONNX Runtime that is not ours, against numpy: formats_test.py ROOT BIN_DIR.

One product, quantized and run by npm's onnxruntime-node. What it must be follows from the formats' bit fields (HiF8: the
golden table) and the largest magnitude of each tile. No size is a multiple of a tile.
"""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT, BIN = map(pathlib.Path, sys.argv[1:3])
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests/cli"))
import onnx_emit as emit  # noqa: E402


def call(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr[-2000:]}")
    return done.stdout


def magnitudes(exponent_bits, mantissa_bits, bias, count):
    """The `count` finite magnitudes of a small float in rising order."""
    codes = np.arange(count)
    exponent, mantissa = codes >> mantissa_bits, codes & ((1 << mantissa_bits) - 1)
    return (mantissa / 2**mantissa_bits + (exponent > 0)) * 2.0 ** (np.maximum(exponent, 1) - bias)


def hif8_magnitudes():
    with open(ROOT / "tests/data/golden/hif8_values.csv", encoding="utf-8") as file:
        values = {abs(float(row["value"])) for row in csv.DictReader(file)}
    return np.array(sorted(v for v in values if np.isfinite(v)))


E4M3 = magnitudes(4, 3, 7, 127)
GRIDS = {
    "hif8": hif8_magnitudes(),
    "fp8_e4m3": E4M3,
    "fp8_e4m3_block": E4M3,
    "mxfp8": E4M3,
    "fp8_e5m2": magnitudes(5, 2, 15, 124),
    "mxfp4": magnitudes(2, 1, 1, 8),
    "int8": np.arange(128.0),
}
EMAX = {"mxfp8": 8, "mxfp4": 2}
WHOLE = None  # as an edge of a tile
# Format, more settings, tiles of the weight (outputs x inputs) and of the activation (tokens x inputs).
CASES = [
    ("mxfp4", [], (1, 32), (1, 32)),
    ("mxfp8", [], (1, 32), (1, 32)),
    ("fp8_e4m3_block", [], (128, 128), (1, 128)),
    ("fp8_e4m3", ["activations.granularity=token"], (1, WHOLE), (1, WHOLE)),
    ("fp8_e5m2", ["activations.granularity=group", "weights.granularity=group"], (1, 32), (1, 32)),
    ("int8", ["activations.granularity=token"], (1, WHOLE), (1, WHOLE)),
    ("int8", ["activations.granularity=block", "weights.granularity=tensor"], (WHOLE, WHOLE), (1, 128)),
    ("hif8", ["activations.granularity=token"], (1, WHOLE), (1, WHOLE)),
]


def scales(number_format, x, tile, target):
    """A scale for every element, from the largest magnitude of its tile."""
    rows, columns = (edge or size for edge, size in zip(tile, x.shape))
    padded = np.pad(np.abs(x), ((0, -x.shape[0] % rows), (0, -x.shape[1] % columns)))
    shape = (padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    amax = padded.reshape(shape).max((1, 3))
    if number_format in EMAX:
        exponent = np.where(amax > 0, np.frexp(amax)[1] - 1 - EMAX[number_format], -127)
        found = np.exp2(np.clip(exponent, -127, 127).astype(np.float64)).astype(np.float32)
    else:
        found = np.where(amax > 0, np.maximum(amax / np.float32(target), np.float32(2.0**-126)), np.float32(1))
    return np.repeat(np.repeat(found, rows, 0)[: x.shape[0]], columns, 1)[:, : x.shape[1]]


def rounded(number_format, x, scale):
    """x / scale to the nearest value, ties to even (HiF8: away from zero), times scale; all in fp32."""
    grid = GRIDS[number_format]
    scaled = (x / scale).astype(np.float64)
    high = np.clip(np.searchsorted(grid, np.abs(scaled)), 1, len(grid) - 1)
    below, above = np.abs(scaled) - grid[high - 1], grid[high] - np.abs(scaled)
    tie_up = high % 2 == 0 if number_format != "hif8" else True
    y = np.where((above < below) | ((above == below) & tie_up), grid[high], grid[high - 1])
    y = np.where(np.abs(scaled) >= grid[-1], grid[-1], y)
    return np.copysign(y, scaled).astype(np.float32) * scale


def main():
    random = np.random.default_rng(1)
    w = random.normal(size=(70, 33)).astype(np.float32)
    x = random.standard_t(3, size=(6, 70)) * np.exp2(random.integers(-9, 9, size=(6, 1)))
    x = x.astype(np.float32)
    x[2] = 0
    folders = [call(ROOT / "cmake/fetch-npm.sh", n).strip() for n in ("onnxruntime-node", "onnxruntime-common")]
    environment = dict(os.environ, NODE_PATH=os.pathsep.join(str(pathlib.Path(f).parent) for f in folders))
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
                call(BIN / "hif8-calibrate", work / "m.onnx", *flags, "--data", work / "x.npy", "-o", work / "out", "--force")
                script = [HERE / "stock_ort.js", "run", work / "out/model.onnx", work / "y", work / "x.npy"]
                call("node", *script, env=environment)
                usual = 16 if number_format == "hif8" else GRIDS[number_format][-1]
                token = 15 if number_format == "hif8" else usual
                weight = rounded(number_format, w.T, scales(number_format, w.T, weight_tile, usual))
                activation = rounded(number_format, x, scales(number_format, x, activation_tile, token))
                expected = activation.astype(np.float64) @ weight.T.astype(np.float64)
                error = np.abs(np.load(work / "y/x.npy") - expected).max() / np.abs(expected).max()
                wrong += error > 1e-6
                print(f"opset {opset}, {', '.join(settings)}: largest error {error:.1e}{'  WRONG' if error > 1e-6 else ''}")
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
