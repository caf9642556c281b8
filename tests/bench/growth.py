"""How time and memory grow: python3 growth.py BIN_DIR OUT.json [ROUNDS], then python3 plot_growth.py OUT.json OUT.svg

Runs hif8-calibrate on made-up models at several numbers of samples, layers, parameters and threads, each the median of
ROUNDS runs (3), in turns. Memory is the program's own (RssAnon, its largest value while it runs); mapped files do not count.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]

import numpy as np  # noqa: E402
import made_up  # noqa: E402
import onnx_emit  # noqa: E402


def own_memory(pid):
    try:
        for line in open(f"/proc/{pid}/status", encoding="utf-8"):
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0


def run(command):
    """Seconds and the largest own memory in MiB."""
    start = time.perf_counter()
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        most = 0
        while process.poll() is None:
            most = max(most, own_memory(process.pid))
            time.sleep(0.002)
        seconds = time.perf_counter() - start
        if process.returncode != 0:
            sys.exit(f"{command}: exit status {process.returncode}\n{process.stderr.read()}")
    return seconds, most


def deep_network(file, layers, width=256):
    """x -> (MatMul, Relu) as often as that."""
    weight = np.random.default_rng(1).standard_normal((width, width), dtype=np.float32) * np.float32(1.4 / width**0.5)
    nodes = []
    for i in range(layers):
        nodes.append(onnx_emit.node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"], name=f"layer{i}"))
        nodes.append(onnx_emit.node("Relu", [f"y{i}"], [f"x{i + 1}"]))
    graph = onnx_emit.Graph(
        inputs=[onnx_emit.value("x0", [1, 64, width])], outputs=[onnx_emit.value(f"x{layers}", [1, 64, width])],
        nodes=nodes, weights={f"w{i}": np.roll(weight, i) for i in range(layers)},
    )
    file.write_bytes(onnx_emit.model(graph))


def cases(program, work):
    """Axis, unit, size, command."""
    out = ["-o", work / "out", "--force", "-q"]
    deep_network(work / "d20.onnx", 20)
    for samples in (4, 16, 64, 256):
        yield "samples", "samples, 20 layers", samples, [program, work / "d20.onnx", "--data", f"random:{samples}", *out]
    for layers in (25, 50, 100, 200):
        deep_network(work / f"d{layers}.onnx", layers)
        yield "layers", "layers, 16 samples", layers, [program, work / f"d{layers}.onnx", "--data", "random:16", *out]
    for gigabytes in (0.125, 0.25, 0.5, 1):
        folder = work / f"w{gigabytes}"
        made_up.weights(folder, gigabytes)
        yield "parameters", "10^6 parameters, weights only", round(gigabytes * 500, 1), [program, folder, "--recipe", "cast", *out]
    made_up.llama(work / "lm", 4, 512, 1408, 8, 4096)
    made_up.token_ids(work / "ids.npy", 4, 512, 4096)
    for threads in (1, 2, 3, 4):
        command = [program, work / "lm", "--data", work / "ids.npy", "--threads", threads, *out]
        yield "threads", f"threads, language model, {os.cpu_count()} processors", threads, command


def main(binaries, file, rounds=3):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as work:
        listed = list(cases(pathlib.Path(binaries).resolve() / "hif8-calibrate", pathlib.Path(work)))
        runs = [[] for _ in listed]
        for _ in range(int(rounds)):
            for found, (_, _, _, command) in zip(runs, listed):
                found.append(run(command))
    axes = {}
    for found, (axis, unit, size, _) in zip(runs, listed):
        seconds, memory = (statistics.median(column) for column in zip(*found))
        point = {"size": size, "seconds": round(seconds, 3), "own_mib": round(memory, 1)}
        axes.setdefault(axis, {"unit": unit, "points": []})["points"].append(point)
    pathlib.Path(file).write_text(json.dumps(axes, indent=1) + "\n")
    for axis in axes.values():
        print(f"\n| {axis['unit']} | seconds | own memory, MiB |\n|---|---|---|")
        for point in axis["points"]:
            print(f"| {point['size']} | {point['seconds']:.2f} | {point['own_mib']:.0f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
