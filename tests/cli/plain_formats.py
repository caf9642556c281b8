"""The values of every code of the number formats, from their bit fields; HiF8's from the golden table."""

import csv
import math

import numpy as np


def minifloat(exponent_bits, mantissa_bits, bias, specials):
    """The values of all codes; `specials(exponent, mantissa)` gives those that are no numbers."""
    values = []
    for code in range(1 << (1 + exponent_bits + mantissa_bits)):
        mantissa = code & ((1 << mantissa_bits) - 1)
        exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
        sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
        special = specials(exponent, mantissa)
        fraction = mantissa / 2**mantissa_bits + (exponent > 0)
        values.append(sign * (special if special is not None else fraction * 2.0 ** (max(exponent, 1) - bias)))
    return np.array(values)


E4M3 = minifloat(4, 3, 7, lambda e, m: math.nan if (e, m) == (15, 7) else None)
E5M2 = minifloat(5, 2, 15, lambda e, m: (math.nan if m else math.inf) if e == 31 else None)
E2M1 = minifloat(2, 1, 1, lambda e, m: None)


def hif8(data):
    """From the folder with the golden tables."""
    with open(data / "golden" / "hif8_values.csv", newline="", encoding="utf-8") as table:
        return np.array([float(row["value"]) for row in csv.DictReader(table)])


def nearest(table, x):
    """The code of the nearest finite value; of two that are as near the one with an even code."""
    codes = np.array([c for c in range(len(table)) if np.isfinite(table[c])])
    order = codes[np.argsort(table[codes], kind="stable")]
    values = table[order]
    at = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
    low, high = x - values[at - 1], values[at] - x
    even = (order[at] & 1) == 0
    return np.where((high < low) | ((high == low) & even), order[at], order[at - 1])
