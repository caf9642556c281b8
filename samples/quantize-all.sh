#!/usr/bin/env bash
# quantize-all.sh FOLDER OUT [OPTION...]: quantizes every checkpoint below FOLDER into the same place below OUT.
#
# A checkpoint is a folder with config.json and *.safetensors files. Options go to hif8-calibrate; without any, weights are
# quantized and activations converted directly (--recipe cast), which needs no data. What is in OUT already is left as it
# is, so that the same command goes on where it was stopped. Exit code 1 if a checkpoint failed; the others are done.
set -euo pipefail
if (($# < 2)); then
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
folder=$(realpath "$1") out=$(realpath -m "$2")
shift 2
(($#)) || set -- --recipe cast

done_=0 kept=0 failed=()
while read -r config; do
  checkpoint=$(dirname "$config")
  compgen -G "$checkpoint/*.safetensors" >/dev/null || continue
  name=$(realpath --relative-to "$folder" "$checkpoint")
  if [[ -e $out/$name/report.json ]]; then
    kept=$((kept + 1))
    continue
  fi
  echo "== $name"
  mkdir -p "$(dirname "$out/$name")"
  # Not the list of names is what the program reads.
  if hif8-calibrate "$checkpoint" -o "$out/$name" --quiet "$@" </dev/null | tail -n 1; then
    done_=$((done_ + 1))
  else
    failed+=("$name")
  fi
done < <(find "$folder" -path "$out" -prune -o -name config.json -print | sort)

echo "$done_ quantized, $kept there already, ${#failed[@]} failed${failed[*]:+: ${failed[*]}}"
((${#failed[@]} == 0))
