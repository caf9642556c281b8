#!/usr/bin/env bash
# weight_only.sh BIN_DIR [GIGABYTES] [RUNS]: weight-only quantization of a random bf16 checkpoint, beside cp and sync of the
# same files. Runs take turns; prints JSON with the seconds of each, and the ratio of the medians in input bytes per second.
set -euo pipefail
bin=$(cd "${1:?weight_only.sh BIN_DIR [GIGABYTES] [RUNS]}" && pwd)
gigabytes=${2:-4}
runs=${3:-3}
python=${PYTHON:-/usr/bin/python3} # with numpy
work=$(mktemp -d "${TMPDIR:-/var/tmp}/hif8-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$python" "$(dirname "$0")/made_up.py" weights "$work/model" "$gigabytes"

seconds() { # runs a command, prints its wall time
  local start=$EPOCHREALTIME
  "$@" >"$work/output" 2>&1 || { cat "$work/output" >&2; exit 1; }
  sync
  awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }'
}
copy() { cp -r --reflink=never "$work/model" "$work/copy"; }
quantize() { "$bin/hif8-calibrate" "$work/model" --recipe cast -o "$work/out" -q; }

cat "$work"/model/* >/dev/null # page cache
sync
for ((run = 0; run < runs; ++run)); do
  seconds copy >>"$work/cp"
  seconds quantize >>"$work/quantize"
  rm -rf "$work/copy" "$work/out"
done
median() { sort -n "$1" | sed -n "$(((runs + 1) / 2))p"; }
"$python" - "$(du -sb "$work/model" | cut -f1)" "$(median "$work/cp")" "$(median "$work/quantize")" "$(tr '\n' ' ' <"$work/cp")" "$(tr '\n' ' ' <"$work/quantize")" <<'END'
import json, sys
size, cp, quantize = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
print(json.dumps({
    "input_bytes": size, "cp_seconds": sys.argv[4].split(), "quantize_seconds": sys.argv[5].split(),
    "cp_mb_per_s": round(size / cp / 1e6), "quantize_mb_per_s": round(size / quantize / 1e6), "ratio": round(cp / quantize, 3),
}, indent=1))
END
