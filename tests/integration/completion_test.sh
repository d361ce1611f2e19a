#!/bin/bash
# What bash and zsh make of `ddprun completion`.
# usage: completion_test.sh DDPRUN
set -uo pipefail
ddprun=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir jobs
touch job.yaml train.py
failed=0

# ---- bash ----
source <("$ddprun" completion bash)
bash_offers() { # expected words, the words of the line; the last one is where the cursor is
  local expected=$1
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _ddprun
  local found
  found=$(printf '%s\n' "${COMPREPLY[@]}" | sort | xargs)
  [[ $found == "$expected" ]] || {
    echo "bash: after '${*}' expected '$expected', found '$found'" >&2
    failed=1
  }
}
bash_offers "--nnodes --no-python --node-rank --nproc-per-node" ddprun --n
bash_offers "auto cpu gpu" ddprun --nproc-per-node ""
bash_offers "gpu" ddprun --nproc-per-node g
bash_offers "gpu" ddprun --nproc-per-node = g
bash_offers "job.yaml jobs" ddprun -c jo
bash_offers "jobs" ddprun --log-dir ""
bash_offers "" ddprun --role ""
bash_offers "validate version" ddprun v
bash_offers "job.yaml jobs" ddprun validate j
bash_offers "--since" ddprun events --s
bash_offers "jobs" ddprun certs ""
bash_offers "bash zsh" ddprun completion ""
bash_offers "doctor drain" ddprun help d
bash_offers "job.yaml jobs" ddprun slurm j
bash_offers "--preflight" ddprun doctor --pref
# What follows COMMAND is COMMAND's: no flags of ours.
bash_offers "" ddprun --nproc-per-node 2 train.py --n
bash_offers "train.py" ddprun --standalone -- ./x t
bash_offers "" ddprun -- train.py --n

# ---- zsh ----
# Its own functions are replaced by some that print what they were asked for.
"$ddprun" completion zsh >_ddprun
zsh_offers() { # pattern, the words of the line
  local pattern=$1
  shift
  local found
  found=$(zsh -f -c '
    compdef() { }
    source ./_ddprun
    _arguments() { print -rl -- "$@" }
    words=("$@") CURRENT=$#
    _ddprun' zsh "$@")
  grep -qE -e "$pattern" <<<"$found" || {
    echo "zsh: after '${*}' expected '$pattern', found: $found" >&2
    failed=1
  }
}
zsh -n _ddprun || failed=1
zsh_offers '^--nproc-per-node=\[.*\]:N\|auto\|gpu\|cpu:\(auto gpu cpu\)$' ddprun --n
zsh_offers "^--run-path\[.*Python's runpy" ddprun --run
zsh_offers '^1:file:_files$' ddprun validate j
zsh_offers '^--since=' ddprun events --s
zsh_offers '^\*--host=' ddprun certs --h
zsh_offers '^\*::argument:_normal$' ddprun train.py ""
# It is the function that compinit finds by its first line.
found=$(zsh -f -c 'fpath=($PWD $fpath); autoload -U compinit; compinit -D -u; print $_comps[ddprun]')
[[ $found == _ddprun ]] || {
  echo "zsh: compinit takes '$found' for ddprun" >&2
  failed=1
}
exit $failed
