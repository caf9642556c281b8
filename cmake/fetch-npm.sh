#!/usr/bin/env bash
# fetch-npm.sh NAME [DEST [MEMBER...]]
#
# Unpacks the npm package NAME, with the version and integrity that npm-packages.txt beside this script pins, into DEST and
# prints that folder. DEST is by default <cache>/npm/<NAME>-<VERSION>/node_modules/<NAME>, so that the folder two (or, with a
# scope, three) levels up serves as NODE_PATH. MEMBER... (paths in the package) limit what is unpacked. A folder that is there
# already is taken as it is, and the final rename is atomic: several checkouts may run this at once.
# Cache: $HIF8_CACHE_DIR, else $XDG_CACHE_HOME/hif8, else ~/.cache/hif8. Pins: $HIF8_NPM_PINS, for tests.
set -euo pipefail

die() {
  echo "fetch-npm.sh: $*" >&2
  exit 4
}

if (($# < 1)); then
  echo "usage: fetch-npm.sh NAME [DEST [MEMBER...]]" >&2
  exit 2
fi
name=$1
pins=${HIF8_NPM_PINS:-$(dirname "$0")/npm-packages.txt}
read -r version integrity < <(awk -v name="$name" '$1 == name {print $2, $3}' "$pins") ||
  die "$name is not pinned in $pins"
cache=${HIF8_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hif8}
dest=${2:-$cache/npm/${name//\//+}-$version/node_modules/$name}
shift $(($# < 2 ? $# : 2))
members=("${@/#/package/}")

if [[ -d $dest ]]; then
  echo "$dest"
  exit 0
fi
command -v npm >/dev/null ||
  die "npm is needed to fetch $name@$version; install the Debian package npm"
mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$(dirname "$dest")/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

# npm's last line is the tarball's name. The integrity that counts is ours, not the one npm is told.
echo "fetching $name@$version" >&2
tarball=$(cd "$work" && npm pack --loglevel=error --ignore-scripts "$name@$version" | tail -n 1) ||
  die "npm could not fetch $name@$version (its message is above)"
actual=$(node -e '
  const hash = require("crypto").createHash("sha512");
  console.log("sha512-" + hash.update(require("fs").readFileSync(process.argv[1])).digest("base64"));
' "$work/$tarball")
[[ $actual == "$integrity" ]] ||
  die "$name@$version has integrity $actual, expected $integrity: not unpacked"
mkdir "$work/out"
tar -xzf "$work/$tarball" -C "$work/out" "${members[@]:-package}"
if ! mv -T "$work/out/package" "$dest" 2>/dev/null && [[ ! -d $dest ]]; then
  die "cannot create $dest"
fi
echo "$dest"
