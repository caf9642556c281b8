"""The rounding function of a written file, value by value in an ONNX Runtime that is not ours: rounding_test.py ROOT BIN_DIR.

A network y = x * W with the 1 x 1 weight W = 1, quantized with scale 1, is the rounding function alone: the decoded weight
is exactly 1. Every bf16 pattern and both neighbours of every rounding boundary must come out as the golden table says.
"""

import csv
import pathlib
import sys
import tempfile

import numpy as np
from stock import BIN, ROOT, call, emit, stock_ort


def identity_network():
    """x [N, 1] -> MatMul with W [1, 1] = 1 -> y [N, 1]."""
    column = ["N", 1]
    nodes = [emit.node("MatMul", "x w", "y", "rounding")]
    return emit.model(emit.Graph([emit.value("x", column)], [emit.value("y", column)], nodes, {"w": np.ones((1, 1), "f4")}))


def grid():
    """The finite magnitudes of the format in rising order, from the golden table."""
    with open(ROOT / "tests/data/golden/hif8_values.csv", encoding="utf-8") as file:
        values = {abs(float.fromhex(row["value_hex_float"])) for row in csv.DictReader(file) if "x" in row["value_hex_float"]}
    return np.array(sorted(v for v in values if np.isfinite(v)))


def inputs(values):
    patterns = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
    ties = np.float32(np.append((values[:-1] + values[1:]) / 2, [2.0**-23, 40960]))
    around = [ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))]
    boundaries = np.concatenate(around)
    return np.concatenate([patterns, boundaries, -boundaries]).astype(np.float32)


def expected(x, values):
    """Nearest magnitude of the grid, ties away from zero, saturating; below 2^-23 zero. In double precision."""
    a = np.abs(x.astype(np.float64))
    high = np.clip(np.searchsorted(values, a), 1, len(values) - 1)
    low = high - 1
    y = np.where(a - values[low] >= values[high] - a, values[high], values[low])
    y = np.where(a < 2.0**-23, 0, np.where((a < 2.0**-22) & (a >= 2.0**-23), 2.0**-22, y))
    y = np.copysign(np.where(a >= values[-1], values[-1], y), x)
    return np.where(np.isfinite(x), y, x).astype(np.float32)


def main():
    values = grid()
    assert len(values) == 127, f"{len(values)} magnitudes, expected 126 and zero"
    x = inputs(values)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "m.onnx").write_bytes(identity_network())
        call(BIN / "hif8-calibrate", work / "m.onnx", "--recipe", "cast", "-o", work / "out")
        np.save(work / "x.npy", x[:, None])
        (work / "y").mkdir()
        stock_ort("run", work / "out/model.onnx", work / "y", work / "x.npy")
        y = np.load(work / "y/x.npy")[:, 0]
    with np.errstate(invalid="ignore"):  # NaN inputs
        want = expected(x, values)
    same = (y == want) | (np.isnan(y) & np.isnan(want))
    for i in np.flatnonzero(~same)[:10]:
        print(f"{x[i].hex() if np.isfinite(x[i]) else x[i]}: expected {want[i]}, found {y[i]}")
    print(f"{same.sum()} of {len(x)} values as the golden table says")
    return 0 if same.all() else 1


if __name__ == "__main__":
    sys.exit(main())
