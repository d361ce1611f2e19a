#!/bin/bash
# Checks manifests against Kubernetes' own schemas, as npm's package kubernetes-models has them, and
# JobSets against jobset.schema.json beside this file. Needs node 18 and npm, which
# scripts/install_packages.sh does not install: left out where one of them is not there. Where npm cannot
# fetch its packages, exits with 77, which CTest counts as skipped, also with DDPRUN_TESTS=all: a registry that
# does not answer is no lack of this machine.
# usage: tests/kubernetes/check_manifests.sh [FILE...]    default: all golden files
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${MANIFEST_TEST_FOLDER:-$root/build/kubernetes-models}

source "$root/tests/support/left_out.sh"
command -v node >/dev/null || left_out "node"
command -v npm >/dev/null || left_out "npm"

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
    echo "check_manifests.sh: left out, it needs the packages that npm cannot fetch now" >&2
    exit 77
  fi
fi
exec 9>&-

exec node "$folder/check_manifests.mjs" "$here/jobset.schema.json" "${files[@]}"
