#!/bin/bash
# Checks manifests against Kubernetes' own schemas, as npm's package kubernetes-models has them, and
# JobSets against jobset.schema.json beside this file. Needs node 18 and npm, which
# scripts/install_packages.sh does not install: exits with 77, which CTest counts as skipped, where one of
# them, or what npm would fetch, is not there.
# usage: tests/kubernetes/check_manifests.sh [FILE...]    default: all golden files
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${MANIFEST_TEST_FOLDER:-$root/build/kubernetes-models}

skip() {
  echo "check_manifests.sh: left out, it needs $1" >&2
  exit 77
}
command -v node >/dev/null || skip "node"
command -v npm >/dev/null || skip "npm"

files=("$@")
((${#files[@]})) || files=("$root"/tests/data/kubernetes/*.job.yaml "$root"/tests/data/kubernetes/*.jobset.yaml)

# node looks for packages beside the file that wants them.
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
cp "$here/check_manifests.mjs" "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/package-lock.json" || [[ ! -d $folder/node_modules ]]; then
  cp "$here/package.json" "$here/package-lock.json" "$folder"
  if ! npm ci --prefix "$folder" --no-audit --no-fund --loglevel=error >&2; then
    rm -rf "$folder/package-lock.json" "$folder/node_modules"
    skip "the packages that npm cannot fetch now"
  fi
fi
exec 9>&-

exec node "$folder/check_manifests.mjs" "$here/jobset.schema.json" "${files[@]}"
