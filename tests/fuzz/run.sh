#!/usr/bin/env bash
# run.sh [--build DIR] [--seconds N] [--jobs N] [--seed N] [TARGET...]
#
# Runs fuzz targets, all or those that are named, N seconds each (60), N at a time (2), from the seeds and what earlier
# runs of this build found out. Prints a line for each: executions, edges of the code that were reached, findings, which
# lie in DIR/fuzz/NAME/findings. Exit code 1 when there was a finding. DIR is build/asan-ubsan unless given; without --seed
# the random numbers are other ones each time.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/asan-ubsan
export seconds=60
jobs=2
export seed=0
while (($#)); do
  case $1 in
    --build) build=$2 ;;
    --seconds) seconds=$2 ;;
    --jobs) jobs=$2 ;;
    --seed) seed=$2 ;;
    -h | --help)
      sed -n '2,7s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) break ;;
  esac
  shift 2
done

export build
bin=$build/bin
if (($# == 0)); then
  for program in "$bin"/*_fuzzer; do set -- "$@" "$(basename "$program" _fuzzer)"; done
fi

run_target() {
  local name=$1 work=$build/fuzz/$1 status=0 inputs=() dictionary=()
  rm -rf "$work/findings"
  mkdir -p "$work/corpus" "$work/findings"
  for kind in seeds findings; do
    if [[ -d tests/fuzz/$kind/$name ]]; then inputs+=("tests/fuzz/$kind/$name"); fi
  done
  if [[ -f tests/fuzz/$name.dict ]]; then dictionary=("-dict=tests/fuzz/$name.dict"); fi
  "$build/bin/${name}_fuzzer" "${dictionary[@]}" -max_total_time="$seconds" -seed="$seed" -print_final_stats=1 \
    -report_slow_units=60 -artifact_prefix="$work/findings/" "$work/corpus" "${inputs[@]}" >"$work/log" 2>&1 || status=$?
  local executions edges findings
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$work/log" | tail -1)
  findings=$(find "$work/findings" -type f | wc -l)
  printf '%-16s %5s s %10s executions %6s edges %3s findings\n' "$name" "$seconds" "${executions:--}" "${edges:--}" \
    "$findings"
  if ((status != 0 || findings > 0)); then
    grep -E -m 3 'FINDING|ERROR: |runtime error|SUMMARY' "$work/log" || tail -5 "$work/log"
    return 1
  fi
}
export -f run_target

# shellcheck disable=SC2016
printf '%s\n' "$@" | xargs -P "$jobs" -I '{}' bash -c 'run_target "$1"' run '{}'
