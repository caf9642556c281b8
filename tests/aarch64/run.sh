#!/usr/bin/env bash
# run.sh [GTEST_FILTER]: builds everything for aarch64 and runs it under qemu: the tests of codec, statistics and scale
# rules, those of ONNX Runtime's sessions and operators, and both programs on a model, whose results must be this
# machine's. Needs Debian's g++-aarch64-linux-gnu and qemu-user, and build/release. Libraries for aarch64 are taken from
# Debian's packages into the cache folder; nothing is installed and no other architecture added to this system.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
sysroot=${XDG_CACHE_HOME:-$HOME/.cache}/hif8/aarch64
build=$root/build/aarch64
packages=(
  libonnx-dev libprotobuf-dev libbenchmark-dev libeigen3-dev libcli11-dev libfmt-dev libgtest-dev libgmock-dev
  libhwy-dev libicu-dev libpcre2-dev libsentencepiece-dev libspdlog-dev libstb-dev libtbb-dev libxxhash-dev
  libyaml-cpp-dev libzip-dev nlohmann-json3-dev
)

for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" >/dev/null || {
    echo "run.sh: $program not found; install g++-aarch64-linux-gnu and qemu-user" >&2
    exit 4
  }
done

# apt with lists and a status of its own, as on a machine of that architecture with nothing installed.
if [[ ! -e $sysroot/complete ]]; then
  apt=$(mktemp -d)
  trap 'rm -rf "$apt"' EXIT
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$sysroot"
  : >"$apt/status"
  options=(-qq -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" install --download-only --no-install-recommends -y "${packages[@]}" >/dev/null
  for package in "$apt"/cache/archives/*.deb; do
    # The compiler brings these itself.
    case ${package##*/} in
      libc6* | libc-dev* | libgcc* | libstdc++* | linux-libc-dev* | gcc-* | g++* | cpp*) continue ;;
    esac
    dpkg-deb -x "$package" "$sysroot"
  done
  # What programs see of their machine: without such a description ONNX Runtime reads that of the host, and crashes.
  mkdir -p "$sysroot/machine/proc"
  ln -sfn /usr/aarch64-linux-gnu/lib "$sysroot/machine/lib"
  for processor in 0 1; do
    printf 'processor\t: %d\nFeatures\t: fp asimd fphp asimdhp asimddp\nCPU implementer\t: 0x41\n' "$processor"
    printf 'CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n'
  done >"$sysroot/machine/proc/cpuinfo"
  touch "$sysroot/complete"
fi

cmake -S "$root" -B "$build" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" -DHIF8_SYSROOT="$sysroot" -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG"
cmake --build "$build" -j2 --target hif8-calibrate hif8-report formats_test numeric_test calibrators_test runtime_test

libraries=$sysroot/usr/lib/aarch64-linux-gnu:$sysroot/lib/aarch64-linux-gnu
emulate() {
  local program=$1
  shift
  qemu-aarch64 -L "$sysroot/machine" -E LD_LIBRARY_PATH="$libraries" "$build/bin/$program" "$@"
}
work=$(mktemp -d)
trap 'rm -rf "$work" ${apt:-}' EXIT

# Weights: the same bytes as on this machine. Activations go through another processor's ONNX Runtime, which may sum in
# another order: the same quality.
data=$root/tests/cli/data/conv
checkpoint=$root/tests/data/models/random-llama
for model in "$data/model.onnx" "$checkpoint"; do
  "$root/build/release/bin/hif8-calibrate" "$model" --recipe cast -o "$work/here" --quiet --force
  emulate hif8-calibrate "$model" --recipe cast -o "$work/there" --quiet --force
  for file in "$work"/here/model.*; do cmp "$file" "$work/there/${file##*/}"; done
  rm -r "$work/here" "$work/there"
done
"$root/build/release/bin/hif8-calibrate" "$data/model.onnx" --data "$data/test_data_set_0" -o "$work/here" --quiet
emulate hif8-calibrate "$data/model.onnx" --data "$data/test_data_set_0" -o "$work/there" --quiet
emulate hif8-report "$work/there" "$work/here" --fail-if 'regression(output_sqnr)>0.01' \
  --fail-if 'regression(network_sqnr)>0.01'
echo "both programs give on aarch64 what they give here"

for tests in formats_test numeric_test calibrators_test; do
  emulate "$tests" --gtest_brief=1 --gtest_filter="${1:-*}"
done
emulate runtime_test --gtest_brief=1 --gtest_filter="${1:-QuantizeOp*:Session*}"
