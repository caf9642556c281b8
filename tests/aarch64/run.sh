#!/usr/bin/env bash
# run.sh [GTEST_FILTER]: builds codec, statistics and scale rules with their tests for aarch64 and runs them under qemu.
# Needs Debian's g++-aarch64-linux-gnu, qemu-user and googletest. The few libraries for aarch64 are taken from Debian's
# packages into the cache folder; nothing is installed and no other architecture added to this system.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hif8/aarch64
build=$root/build/aarch64
packages=(libtbb-dev libtbb12 libxxhash-dev libpcre2-dev libhwy-dev libhwy1 libfmt-dev)

for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" >/dev/null || {
    echo "run.sh: $program not found; install g++-aarch64-linux-gnu and qemu-user" >&2
    exit 4
  }
done

if [[ ! -e $cache/complete ]]; then
  # apt with lists of its own, as on a machine of that architecture.
  apt=$(mktemp -d)
  trap 'rm -rf "$apt"' EXIT
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$cache"
  : >"$apt/status"
  options=(-qq -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=)
  apt-get "${options[@]}" update
  (cd "$apt" && apt-get "${options[@]}" download "${packages[@]}")
  for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$cache"; done
  touch "$cache/complete"
fi

cmake -S "$root/tests/aarch64/project" -B "$build" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DHIF8_SYSROOT="$cache"
cmake --build "$build" -j2
exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$cache/usr/lib/aarch64-linux-gnu" \
  "$build/numbers_test" --gtest_brief=1 --gtest_filter="${1:-*}"
