"""Number formats, their scales and the rules that choose them, in double precision and by definition: for tests.

Matrices have what a layer sums over along their second dimension. Quotients and scales are fp32 as the formats say: they
decide ties, of which bf16 weights have many. Nothing of this is shared with the project.
"""

import numpy as np


def round_float(x, bits, least, most):
    """To `bits` significant bits, not below the quantum 2^least, ties to even, clipped."""
    exponent = np.frexp(x)[1]  # |x| in [2^(exponent - 1), 2^exponent)
    quantum = np.ldexp(1.0, np.maximum(exponent - bits, least))
    return np.clip(np.rint(x / quantum) * quantum, -most, most)


def round_hif8(x):
    """Ties away from zero; 4, 3, 2, 1 significant bits by the exponent."""
    a = np.minimum(np.abs(x), 2.0**15)
    e = np.maximum(np.frexp(np.maximum(a, 2.0**-60))[1] - 1, -22)
    m = 3 - (np.abs(e) > 3).astype(int) - (np.abs(e) > 7) - (np.abs(e) > 15)
    step = np.ldexp(1.0, e - m)
    y = np.floor(a / step + 0.5) * step
    return np.sign(x) * np.where(a < 2.0**-23, 0, np.minimum(y, 2.0**15))


# How values are rounded, and the magnitude that the largest one is mapped to.
ROUND = {
    "hif8": (round_hif8, 16),
    "fp8_e4m3": (lambda x: round_float(x, 4, -9, 448), 448),
    "fp8_e5m2": (lambda x: round_float(x, 3, -16, 57344), 57344),
    "mxfp4": (lambda x: round_float(x, 2, -1, 6), 6),
    "int8": (lambda x: np.clip(np.rint(x), -127, 127), 127),
}
ROUND["fp8_e4m3_block"] = ROUND["mxfp8"] = ROUND["fp8_e4m3"]
EMAX = {"mxfp8": 8, "mxfp4": 2}  # exponents of the largest value, for scales that are powers of two
WHOLE = None  # as an edge of a tile
ALL = (WHOLE, WHOLE)
CHANNEL = TOKEN = (1, WHOLE)


def prescribed_tile(name, is_weight):
    """The tile of a format that says so itself, else nothing."""
    if name in EMAX:
        return 1, 32
    if name == "nvfp4":
        return 1, 16
    return (128 if is_weight else 1, 128) if name == "fp8_e4m3_block" else None


def spread(per_tile, tile, shape):
    """A value for every element from one for every tile."""
    rows, columns = (edge or size for edge, size in zip(tile, shape))
    return np.repeat(np.repeat(per_tile, rows, 0)[: shape[0]], columns, 1)[:, : shape[1]]


def tile_amax(x, tile):
    rows, columns = (edge or size for edge, size in zip(tile, x.shape))
    padded = np.pad(np.abs(x), ((0, -x.shape[0] % rows), (0, -x.shape[1] % columns)))
    return padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns).max((1, 3))


def scales_of(name, amax, target=None):
    """fp32 scales for the largest magnitudes of tiles."""
    amax = amax.astype(np.float32)
    if name in EMAX:
        exponent = np.where(amax > 0, np.frexp(amax)[1] - 1 - EMAX[name], -127)
        return np.exp2(np.clip(exponent, -127, 127).astype(np.float64)).astype(np.float32)
    scale = np.maximum(amax / np.float32(target or ROUND[name][1]), np.float32(2.0**-126))
    return np.where(amax > 0, scale, np.float32(1))


def rounded(name, x, scale):
    """x as the format holds it with that scale, which broadcasts."""
    scale = np.asarray(scale, np.float32)
    return ROUND[name][0]((x.astype(np.float32) / scale).astype(np.float64)) * scale.astype(np.float64)


def quantized(name, x, tile, target=None):
    """x with a scale per tile, from its largest magnitude."""
    return rounded(name, x, spread(scales_of(name, tile_amax(x, tile), target), tile, x.shape))


def e4m3_scales(amax, global_scale):
    """NVFP4's, for the largest magnitudes of groups: E4M3 numbers over one number of the tensor."""
    wanted = (amax.astype(np.float32) / np.float32(6) * global_scale).astype(np.float64)
    number = np.maximum(round_float(np.maximum(wanted, 2.0**-60), 4, -9, 448), 2.0**-9)
    return number.astype(np.float32) / global_scale


def nvfp4(x, observed):
    """x with a scale per 16; the number of an activation follows from its static scale, amax / (448 * 6)."""
    amax, most = np.float32(np.abs(x).max()), np.float32(448 * 6)
    global_scale = np.float32(1) / (amax / most) if observed else most / amax
    tile = (1, 16)
    return rounded("mxfp4", x, spread(e4m3_scales(tile_amax(x, tile), global_scale), tile, x.shape))


def percentile(x, percent):
    """Nearest rank among all magnitudes; the largest one where that is 0."""
    magnitudes = np.sort(np.abs(x), axis=None)
    return magnitudes[int(np.ceil(percent / 100 * magnitudes.size)) - 1] or magnitudes[-1]


def least_error_scale(name, x):
    """Of twelfths of an octave around the scale of the largest magnitude, four octaves each way, then of quarters of these
    around all that are as good as the best to 1 %."""
    largest = float(scales_of(name, np.abs(x).max()))
    error = lambda scale: ((x - rounded(name, x, scale)) ** 2).sum()
    errors = {scale: error(scale) for scale in largest * np.exp2(np.arange(-48, 49) / 12)}
    limit = 1.01 * min(errors.values())
    for center in [scale for scale, found in errors.items() if found <= limit]:
        errors.update({scale: error(scale) for scale in center * np.exp2(np.arange(-3, 4) / 48)})
    return min(errors, key=errors.get)


def densest_scale(name, x):
    """The best of all 48ths of an octave, four octaves each way: what short rows of HiF8 and FP8 are searched to."""
    largest = float(scales_of(name, np.abs(x).max()))
    return min(largest * np.exp2(np.arange(-192, 193) / 48), key=lambda scale: ((x - rounded(name, x, scale)) ** 2).sum())


def sqnr(x, y):
    return 10 * np.log10((x**2).sum() / ((x - y) ** 2).sum())
