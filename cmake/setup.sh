#!/usr/bin/env bash
# setup.sh [--tests] [--slow-tests] [--samples] [--ci]: installs the Debian packages that are missing. Without options these are what
# the build needs; each option adds what the tests, the samples or the checks of .ci/run need besides.
# Does nothing, and needs no rights, when nothing is missing.
set -euo pipefail

build=(
  g++ cmake ninja-build ccache pkg-config git ca-certificates
  libonnx-dev libprotobuf-dev protobuf-compiler
  libbenchmark-dev libcli11-dev libeigen3-dev libfmt-dev libgtest-dev libgmock-dev libhwy-dev libicu-dev libpcre2-dev
  libsentencepiece-dev libspdlog-dev libspng-dev libstb-dev libtbb-dev libturbojpeg0-dev libxxhash-dev libyaml-cpp-dev libzip-dev
  libzstd-dev zlib1g-dev
  nlohmann-json3-dev python3
)
# Taken only where the distribution has it; elsewhere CMake fetches the library from npm.
optional=(libonnxruntime-dev)
tests=(python3-numpy python3-pil libonnx-testdata opencv-doc alsa-utils openmpi-bin)
slow_tests=(python3-torch chromium)
samples=(opencv-doc)
ci=(clang clang-format clang-tidy libclang-rt-dev zsh fish groff shellcheck)

wanted=("${build[@]}")
for option in "$@"; do
  case $option in
    --tests) wanted+=("${tests[@]}") ;;
    --slow-tests) wanted+=("${slow_tests[@]}") ;;
    --samples) wanted+=("${samples[@]}") ;;
    --ci) wanted+=("${ci[@]}") ;;
    *)
      echo "setup.sh: unknown option $option; known are --tests, --slow-tests, --samples, --ci" >&2
      exit 2
      ;;
  esac
done
# Some Node.js packages bring their own npm and do not agree with Debian's.
command -v npm >/dev/null || wanted+=(nodejs npm)

if ! command -v dpkg-query >/dev/null; then
  echo "setup.sh: not a Debian system; install the equivalents of: ${wanted[*]}" >&2
  exit 4
fi

missing_of() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null) =~ (^| )installed ]] || echo "$package"
  done
}

mapfile -t missing < <(missing_of "${wanted[@]}")
((${#missing[@]})) || exit 0

run() {
  if ((EUID == 0)); then
    env DEBIAN_FRONTEND=noninteractive "$@"
  elif command -v sudo >/dev/null; then
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  else
    echo "setup.sh: root or sudo is needed to install: ${missing[*]}" >&2
    exit 4
  fi
}

echo "installing: ${missing[*]}"
run apt-get update -qq
for package in "${optional[@]}"; do
  if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
done
run apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
