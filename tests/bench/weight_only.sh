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

"$python" - "$work/model" "$gigabytes" <<'END'
import json, pathlib, struct, sys
import numpy as np
folder, gigabytes = pathlib.Path(sys.argv[1]), float(sys.argv[2])
folder.mkdir()
rows, columns, shards = 4096, 4096, 8
per_shard = max(1, round(gigabytes * 1e9 / shards / (rows * columns * 2)))
random = np.random.default_rng(1)
index = {}
for shard in range(shards):
    file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
    names = [f"model.layers.{shard * per_shard + i}.mlp.up_proj.weight" for i in range(per_shard)]
    size = rows * columns * 2
    header = {n: {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [i * size, (i + 1) * size]} for i, n in enumerate(names)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _ in names:
            values = random.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)
            out.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    index.update({n: file for n in names})
total = len(index) * rows * columns * 2
(folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": index}))
(folder / "config.json").write_text(json.dumps({"model_type": "made_up", "torch_dtype": "bfloat16"}))
END

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
