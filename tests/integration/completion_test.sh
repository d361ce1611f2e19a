#!/bin/bash
# bash and zsh complete flags, values and files with `ddprun completion`.
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
bash_offers "--nnodes --no-python --node-rank --nproc-per-node --numa-binding" ddprun --n
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
# Completion asks `ddprun status` for names of jobs and hosts; this function answers in its place. Completion leaves out
# a name that bash would expand.
ddprun() {
  [[ "$1 $2" == "status --json" ]] || return 64
  printf '%s ' "$@" >asked
  printf '%s' '{"jobs":[{"job":"mnist","world_size":3,"nodes":[{"host":"n1","address":"10.0.0.1"}],' \
    '"last_root_cause":{"host":"gone"}},{"job":"$(touch$IFS-expanded)","world_size":1},{"job":"gpt_2"}]}'
}
bash_offers "gpt_2 mnist" ddprun logs ""
bash_offers "mnist" ddprun stop m
bash_offers "n1" ddprun drain ""
bash_offers "gpt_2 mnist" ddprun drain n1 ""
COMP_LINE="ddprun logs mnist --rdzv-endpoint head:29400 --insecure --rank "
bash_offers "0 1 2" ddprun logs mnist --rdzv-endpoint head : 29400 --insecure --rank ""
[[ $(<asked) == "status --json --timeout 1s --rdzv-endpoint head:29400 --insecure mnist " ]] || {
  echo "bash: the rendezvous was asked with '$(<asked)'" >&2
  failed=1
}
unset COMP_LINE
unset -f ddprun
bash_offers "" ./no-such-program logs ""
[[ ! -e -expanded ]] || failed=1
bash_offers "doctor drain" ddprun help d
bash_offers "job.yaml jobs" ddprun slurm j
bash_offers "--preflight" ddprun doctor --pref
# Everything after COMMAND belongs to COMMAND: completion offers no flags of ddprun there.
bash_offers "" ddprun --nproc-per-node 2 train.py --n
bash_offers "train.py" ddprun --standalone -- ./x t
bash_offers "" ddprun -- train.py --n

# ---- zsh ----
# zsh's own completion functions are replaced by functions that print their arguments.
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
zsh_offers '^1:job:_ddprun_jobs$' ddprun logs ""
zsh_offers '^--rank=.*:RANKS:_ddprun_ranks$' ddprun logs ""
zsh_offers '^2:job:_ddprun_jobs$' ddprun drain n1 ""
cat >fake <<'END'
#!/bin/sh
echo "$@" >asked
echo '{"jobs":[{"job":"mnist","world_size":2,"nodes":[{"host":"n1","address":"10.0.0.1"}]},{"job":"a b"}]}'
END
chmod +x fake
found=$(zsh -f -c '
  compdef() { }
  compadd() { shift; print -r -- "$@" }
  source ./_ddprun
  words=(logs mnist --token-file t --rank "") _ddprun_program=./fake
  _ddprun_jobs; _ddprun_nodes; _ddprun_ranks' | xargs)
[[ $found == "mnist n1 0 1" && $(<asked) == "status --json --timeout 1s --token-file t mnist" ]] || {
  echo "zsh: of jobs, nodes and ranks it offers '$found', asked '$(<asked)'" >&2
  failed=1
}
zsh_offers '^--since=' ddprun events --s
zsh_offers '^\*--host=' ddprun certs --h
zsh_offers '^\*::argument:_normal$' ddprun train.py ""
# compinit finds the function by the first line of the file.
found=$(zsh -f -c 'fpath=($PWD $fpath); autoload -U compinit; compinit -D -u; print $_comps[ddprun]')
[[ $found == _ddprun ]] || {
  echo "zsh: compinit takes '$found' for ddprun" >&2
  failed=1
}
exit $failed
