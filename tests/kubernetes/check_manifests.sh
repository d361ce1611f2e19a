#!/bin/bash
# Checks manifests against Kubernetes' own schemas, as npm's package kubernetes-models has them, and
# JobSets against jobset.schema.json beside this file. Not a part of the tests: it needs node and npm.
# usage: tests/kubernetes/check_manifests.sh [FILE...]    default: all golden files
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
modules=$root/build/kubernetes-models
files=("$@")
((${#files[@]})) || files=("$root"/tests/data/kubernetes/*.job.yaml "$root"/tests/data/kubernetes/*.jobset.yaml)
if [[ ! -d $modules/node_modules/kubernetes-models ]]; then
  mkdir -p "$modules"
  npm install --prefix "$modules" --no-audit --no-fund --loglevel=error \
    kubernetes-models@5.1.0 yaml@2.8.1 ajv@8.17.1 >&2
fi
cp "$here/check_manifests.mjs" "$modules/check_manifests.mjs" # node looks for packages beside it
node "$modules/check_manifests.mjs" "$here/jobset.schema.json" "${files[@]}"
