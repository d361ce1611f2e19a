#!/bin/bash
# Every shell script of this repository is valid, and shellcheck finds nothing in it. The end of scripts/ddprun.sbatch
# equals the end of the script that `ddprun slurm` writes.
# usage: tests/slurm/check_scripts.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

for script in scripts/*.sh scripts/*.sbatch .ci/run tests/data/slurm/*.sbatch tests/slurm/*.sh; do
  bash -n "$script"
  shellcheck --severity=info --exclude=SC2015,SC2016 "$script"
done
# The script that is a part of a program.
embedded=$(sed -n '/R"SH(/,/)SH"/{//!p}' launcher/commands/schedulers/lost_batch_host.cc)
[[ $embedded == *squeue* ]]
shellcheck --severity=warning --shell=sh - <<<"$embedded"

from_the_step_on() { sed -n '/^# --wait/,$p' "$1" | grep -v '^srun '; }
diff <(from_the_step_on scripts/ddprun.sbatch) <(from_the_step_on tests/data/slurm/plain.sbatch)
