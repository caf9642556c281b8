#!/usr/bin/env bash
# check.sh [BUILD]: makes the Debian package from a build folder (build/release) and installs it on a bare Debian of this
# release (debootstrap's smallest variant) in a temporary root.
#
# There the programs must run, find all their libraries, quantize a model, and have their manual pages and completions.
# Needs root, debootstrap, dpkg-dev and a package mirror; the mirror is the one this system uses, or $HIF8_DEBIAN_MIRROR.
# Takes a minute or two, most of it the network.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:-$root/build/release}")

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

for tool in debootstrap dpkg-shlibdeps cpack; do
  command -v "$tool" >/dev/null || fail "$tool is missing (packages debootstrap, dpkg-dev, cmake)"
done
((EUID == 0)) || fail "root is needed: debootstrap makes a root of its own"
# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
shopt -s nullglob
sources=(/etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list)
[[ ! -f /etc/apt/sources.list ]] || sources+=(/etc/apt/sources.list)
mirror=${HIF8_DEBIAN_MIRROR:-$(awk '$1 == "URIs:" || $1 == "deb" {print $2; exit}' "${sources[@]}")}
[[ -n $mirror ]] || fail "no mirror found; give HIF8_DEBIAN_MIRROR"

work=$(mktemp -d)
clean() {
  umount "$work/root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean EXIT
step() { printf '== %s (%d s)\n' "$*" "$SECONDS"; }

step "cpack -G DEB"
(cd "$work" && cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/cpack" >"$work/cpack.log") || {
  cat "$work/cpack.log"
  fail "cpack"
}
deb=$(find "$work/cpack" -maxdepth 1 -name '*.deb')
dpkg-deb --info "$deb"
ls -l "$deb"

step "debootstrap $suite"
bare=$work/root
debootstrap --variant=minbase "$suite" "$bare" "$mirror" >"$work/debootstrap.log" || {
  tail -n 20 "$work/debootstrap.log"
  fail "debootstrap"
}
mount -t proc proc "$bare/proc"  # programs find their own folder there
cp "$deb" "$bare/hif8.deb"
cp -r "$root/tests/cli/data/conv" "$bare/conv"
cp /etc/resolv.conf "$bare/etc/resolv.conf"
# However this system reaches its mirror.
for file in /etc/apt/apt.conf.d/*; do
  if grep -qi 'acquire' "$file"; then cp "$file" "$bare/etc/apt/apt.conf.d/"; fi
done
inside() { chroot "$bare" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8 "$@"; }

step "apt-get install ./hif8.deb"
inside apt-get update -qq
inside apt-get install -qq -y --no-install-recommends /hif8.deb >"$work/install.log" || {
  tail -n 20 "$work/install.log"
  fail "the package does not install"
}

step "what was installed"
for program in hif8-calibrate hif8-report; do
  inside "$program" --version || fail "$program --version"
  for file in "man/man1/$program.1" "bash-completion/completions/$program" "zsh/site-functions/_$program" \
    "fish/vendor_completions.d/$program.fish"; do
    [[ -s $bare/usr/share/$file || -s $bare/usr/share/$file.gz ]] || fail "/usr/share/$file is not there"
  done
done
checked=0
while read -r binary; do
  missing=$(inside ldd "$binary" | grep 'not found' || true)
  # The plug-ins get what they need from whoever loads them; nothing else may be missing.
  [[ -z $missing ]] || fail "$binary: $missing"
  checked=$((checked + 1))
done < <(inside dpkg -L hif8 | grep -E '/bin/|\.so(\.|$)')
((checked >= 5)) || fail "only $checked binaries were found"
echo "$checked binaries find all their libraries"
inside hif8-calibrate /conv/model.onnx --data /conv/test_data_set_0 -o /out --quiet
inside hif8-report /out --fail-if 'output_sqnr<15' --quiet >/dev/null
inside hif8-report /conv/model.onnx /out --fail-if 'unmatched>0' --quiet >/dev/null
inside apt-get remove -qq -y hif8 >/dev/null
[[ ! -e $bare/usr/bin/hif8-calibrate && ! -e $bare/usr/lib/hif8 ]] || fail "removing it leaves files"
step "the package works"
