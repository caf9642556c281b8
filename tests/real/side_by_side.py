"""What the tests of --compare share: the program's numbers for every format, and what they must be."""

import time

from number_formats import ALL, CHANNEL, nvfp4, prescribed_tile, quantized, sqnr
from stock import calibrate

FORMATS = ["hif8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3_block", "mxfp8", "mxfp4", "int8", "nvfp4"]
TIMED = FORMATS[1:7]  # beside the first one
TOLERANCE = 0.02  # dB


def least_time(repeat, model, out, *options):
    """Returns the seconds of the quickest of some runs."""
    times = []
    for _ in range(repeat):
        start = time.monotonic()
        calibrate(model, out, *options)
        times.append(time.monotonic() - start)
    return min(times)


def compare_all(model, out, *options):
    """The report's comparisons of all formats; six beside the usual one take at most three times as long as that alone."""
    one = least_time(3, model, out, *options, "--compare", FORMATS[0])
    six = least_time(3, model, out, *options, "--compare", ",".join(TIMED))
    print(f"{FORMATS[0]} alone {one:.2f} s, six formats beside it {six:.2f} s: {six / one:.2f} times", flush=True)
    assert six <= 3 * one, "comparing six formats takes more than three times as long as one"
    return rows_of(calibrate(model, out, *options, "--compare", "all"))


def rows_of(report):
    return {(row["layer"], row["operand"], row["format"]): row["sqnr_db"] for row in report["comparisons"]}


def weight_as(name, w):
    """[outputs, inputs] in a format, a scale per output where the format says nothing."""
    if name == "nvfp4":
        return nvfp4(w, observed=False)
    return quantized(name, w, prescribed_tile(name, True) or CHANNEL)


def input_as(name, x, tile=ALL, target=None):
    """[tokens, inputs] in a format, in such tiles where the format says nothing."""
    if name == "nvfp4":
        return nvfp4(x, observed=True)
    prescribed = prescribed_tile(name, False)
    return quantized(name, x, prescribed or tile, None if prescribed else target)


class Check:
    """Holds rows of a report against what was computed; every row must be claimed in the end."""

    def __init__(self, rows):
        self.rows, self.worst, self.wrong, self.count = dict(rows), {}, [], 0

    def equal(self, layer, operand, choice, exact, approximation):
        expected = sqnr(exact, approximation)
        self.between(layer, operand, choice, expected, expected)

    def between(self, layer, operand, choice, low, high):
        found = self.rows.pop((layer, operand, choice))
        difference = max(low - found, found - high, 0.0)
        self.count += 1
        self.worst[operand] = max(self.worst.get(operand, 0.0), difference)
        if not difference <= TOLERANCE:
            self.wrong.append(f"{layer}, {operand}, {choice}: expected {low:.3f} to {high:.3f} dB, found {found:.3f}")

    def finish(self):
        print("\n".join(self.wrong))
        worst = ", ".join(f"{operand} {difference:.4f}" for operand, difference in self.worst.items())
        print(f"{self.count} comparisons, {len(self.wrong)} wrong; largest differences in dB: {worst}", flush=True)
        assert not self.rows, f"not expected: {list(self.rows)[:5]}"
        assert not self.wrong
