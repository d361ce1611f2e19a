#!/bin/bash
# From an empty folder to a job that has run, as a newcomer types it.
# usage: first_steps_test.sh DDPRUN
set -uo pipefail
ddprun=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset "${!DDPRUN_@}" "${!PET_@}"
failed=0
expect() { # what, expected exit code, text that it must have said, command...
  local what=$1 code=$2 text=$3 found=0
  shift 3
  "$@" >said 2>&1 || found=$?
  if [[ $found != "$code" ]] || ! grep -qF -e "$text" said; then
    echo "$what: expected $code and '$text', found $found and: $(<said)" >&2
    failed=1
  fi
}
answer() { # the answers, then the command
  local answers=$1
  shift
  "$@" <<<"$answers"
}
echo 'print("trained")' >train.py

expect "nothing here" 64 "ddprun init" "$ddprun"
expect "no answers" 64 "found the end of the input" "$ddprun" init </dev/null
[[ ! -e job.yaml ]] || failed=1
expect "three answers, one of them wrong" 0 "ddprun -c job.yaml" answer $'train.py\nmany\n1\n2' "$ddprun" init
grep -q "expected a number of nodes" said || { echo "a wrong answer: $(<said)" >&2; failed=1; }
expect "one file" 64 "runs         train.py" "$ddprun"
expect "the job" 0 "trained" "$ddprun" -c job.yaml
[[ $(grep -c trained said) == 2 ]] || { echo "expected 2 workers: $(<said)" >&2; failed=1; }
expect "a file that is there" 1 "--force replaces it" "$ddprun" init train.py
expect "the same by force" 0 "job.yaml is written" "$ddprun" init --force ./train --epochs 10
expect "what it runs now" 64 "runs         ./train --epochs 10" "$ddprun"
printf 'a: {command: b}\n' >other.yaml # a YAML file that is not a job file
expect "still one file" 64 "The job file here is job.yaml" "$ddprun"
printf 'command: a\nnodes: 0\n' >job.yaml
expect "a wrong file" 64 "job.yaml:2:8: nodes: expected" "$ddprun"
printf 'command: [a\nnodes: 2\n' >job.yaml
expect "a file that is no YAML" 64 "job.yaml:2:" "$ddprun"
expect "a second file" 0 "second.yml is written" "$ddprun" init -o second.yml train.py
expect "two files" 64 "ddprun -c second.yml" "$ddprun"
expect "a folder that is not there" 1 "cannot write none/job.yaml" "$ddprun" init -o none/job.yaml a

# The command line that the guide gives for several nodes, run as two nodes on this host.
mkdir nodes && cd nodes && cp ../train.py . && head -c 32 /dev/urandom | base64 >token && chmod 600 token
expect "two nodes" 0 "ddprun slurm job.yaml" "$ddprun" init --nnodes 2 train.py
line=$(grep -F -e --rdzv-endpoint said)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
line=${line/HOST/127.0.0.1:$port}
line=${line/TOKEN/token}
read -ra words <<<"$line"
"$ddprun" "${words[@]:1}" >first 2>&1 &
expect "the line of the guide" 0 "trained" "$ddprun" "${words[@]:1}"
wait $! || { echo "the other node: $(<first)" >&2; failed=1; }
exit $failed
