#!/usr/bin/env bash
# run.sh [--slow] [--preset PRESET] [CTEST ARGUMENTS...]
#
# Installs what is missing, builds, and runs the tests; --slow adds those that take minutes. Other arguments go to
# ctest, for example: tests/run.sh -R codec
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
slow=0
while (($#)); do
  case $1 in
    --slow) slow=1 ;;
    --preset)
      preset=${2:?--preset needs a name: dev, release, asan-ubsan, tsan}
      shift
      ;;
    -h | --help)
      sed -n '2,5s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) break ;;
  esac
  shift
done

labels=(-LE slow)
packages=(--tests)
if ((slow)); then
  labels=()
  packages+=(--slow-tests)
fi

cmake/setup.sh "${packages[@]}"
cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset" "${labels[@]}" "$@"
