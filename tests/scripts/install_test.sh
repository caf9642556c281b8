#!/usr/bin/env bash
# install_test.sh CMAKE BUILD: what `cmake --install` gives runs from anywhere, without LD_LIBRARY_PATH, and the plug-in
# for ONNX Runtime exports its one entry point.
set -euo pipefail
cmake=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
# Moved: nothing may depend on where it was installed.
mv "$work/first" "$work/prefix"
cd "$work"
for program in hif8-calibrate hif8-report; do
  env -i "$work/prefix/bin/$program" --version >stdout || fail "$program --version: exit status $?"
  grep -qE '[0-9]+\.[0-9]+\.[0-9]+' stdout || fail "$program --version printed: $(cat stdout)"
  if readelf -d "prefix/bin/$program" | grep -E 'R(UN)?PATH' | grep -qF "$build"; then
    fail "$program looks for libraries in the build folder"
  fi
done
for program in hif8-calibrate hif8-report; do
  for file in "man/man1/$program.1" "bash-completion/completions/$program" "zsh/site-functions/_$program" \
    "fish/vendor_completions.d/$program.fish"; do
    grep -q "$program" "prefix/share/$file" || fail "share/$file was not installed"
  done
done
plugin=$(find prefix -name libhif8_onnxruntime.so)
[[ -n $plugin ]] || fail "libhif8_onnxruntime.so was not installed"
exported=$(nm -D --defined-only "$plugin" | awk '$2 ~ /[A-Z]/ {print $3}' | sort | tr '\n' ' ')
[[ $exported == "RegisterCustomOps " ]] || fail "the plug-in exports: $exported"
if readelf -d "$plugin" | grep NEEDED | grep -q onnxruntime; then
  fail "the plug-in brings an ONNX Runtime of its own into the user's process"
fi
[[ -f $(find prefix -name LICENSE) ]] || fail "no LICENSE"
echo "the installation works"
