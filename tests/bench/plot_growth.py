"""Draws what growth.py measured: python3 plot_growth.py IN.json OUT.svg (Debian: python3-matplotlib)"""

import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "hif8"  # same numbers, same file
import matplotlib.pyplot as plt  # noqa: E402


def main(source, target):
    with open(source, encoding="utf-8") as file:
        axes = json.load(file)
    figure, plots = plt.subplots(1, len(axes), figsize=(3.2 * len(axes), 3), layout="constrained")
    for plot, axis in zip(plots, axes.values()):
        sizes = [p["size"] for p in axis["points"]]
        (time,) = plot.plot(sizes, [p["seconds"] for p in axis["points"]], "o-", color="tab:blue", label="seconds")
        other = plot.twinx()
        (memory,) = other.plot(sizes, [p["own_mib"] for p in axis["points"]], "s--", color="tab:orange", label="own memory, MiB")
        plot.set_xlabel(axis["unit"], fontsize=8)
        for side in (plot, other):
            side.set_ylim(bottom=0)
            side.tick_params(labelsize=7)
        plot.set_xticks(sizes)
        plot.legend(handles=[time, memory], fontsize=7, loc="lower right")
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
