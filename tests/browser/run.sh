#!/bin/bash
# Runs a test of the page in Chromium. Needs chromium, node 18 and npm, which scripts/install_packages.sh
# does not install: exits with 77, which CTest counts as skipped, where one of them, or what npm would
# fetch, is not there.
# usage: tests/browser/run.sh page_test.mjs [ARGUMENT...]      CHROMIUM=/path/to/chromium
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${BROWSER_TEST_FOLDER:-$root/build/browser}

skip() {
  echo "run.sh: left out, it needs $1" >&2
  exit 77
}
command -v node >/dev/null || skip "node"
command -v npm >/dev/null || skip "npm"
[[ -x ${CHROMIUM:-/usr/bin/chromium} ]] || skip "${CHROMIUM:-/usr/bin/chromium}"

# node looks for packages beside the files that want them.
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
cp "$here"/*.mjs "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/package-lock.json" || [[ ! -d $folder/node_modules ]]; then
  cp "$here/package.json" "$here/package-lock.json" "$folder"
  if ! npm ci --prefix "$folder" --no-audit --no-fund --loglevel=error >&2; then
    rm -rf "$folder/package-lock.json" "$folder/node_modules"
    skip "the packages that npm cannot fetch now"
  fi
fi
exec 9>&-

test=$1
shift
export DDPRUN_ROOT=$root
exec node "$folder/$test" "$@"
