#!/bin/bash
# Every script of ours that Slurm runs is one that bash reads and shellcheck finds nothing in.
# usage: tests/slurm/check_scripts.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
for script in scripts/*.sbatch tests/data/slurm/*.sbatch tests/slurm/*.sh; do
  bash -n "$script"
  shellcheck --severity=warning "$script"
done
