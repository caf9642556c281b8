#!/usr/bin/env bash
# gate.sh MODEL DATA OUT: quantizes a model and decides whether the result may be released.
#
# Exit code: 0 released, 1 a limit was not kept, anything else as hif8-calibrate says. Beside the model, OUT.md has a table
# for people and OUT.xml the gates for the CI system's test report. Limits, in dB, come from the environment:
#   MIN_OUTPUT_SQNR (15)   of every layer's output
#   MIN_NETWORK_SQNR (10)  of every network output
#   MIN_WEIGHT_SQNR (25)   of every weight, measured from the two models' files alone
set -euo pipefail
if (($# != 3)); then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
model=$1 data=$2 out=${3%/}

hif8-calibrate "$model" --data "$data" -o "$out" --force --quiet >/dev/null
hif8-report "$out" --to markdown -o "$out.md"

# Both checks run, so that one report names all that is wrong.
status=0
hif8-report "$out" --to junit -o "$out.xml" \
  --fail-if "output_sqnr<${MIN_OUTPUT_SQNR:-15}" \
  --fail-if "network_sqnr<${MIN_NETWORK_SQNR:-10}" || status=$?
hif8-report "$model" "$out" --quiet --to markdown \
  --fail-if "weight_sqnr<${MIN_WEIGHT_SQNR:-25}" \
  --fail-if 'unmatched>0' >>"$out.md" || status=$((status > 1 ? status : $?))
exit "$status"
