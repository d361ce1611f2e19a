#!/bin/bash
# `ddprun top` in a real terminal (tmux), with a real rendezvous and a job on two nodes.
# usage: top_test.sh DDPRUN      exits with 77, skipped, where there is no tmux
set -uo pipefail
ddprun=$1
command -v tmux >/dev/null || exit 77
export LC_ALL=C.UTF-8 TERM=xterm
folder=$(mktemp -d)
terminal() { tmux -L "ddprun-top-$$" -f /dev/null "$@"; }
pids=()
finish() {
  terminal kill-server 2>/dev/null
  ((${#pids[@]})) && kill "${pids[@]}" 2>/dev/null && kill -CONT "${pids[0]}"
  wait
  rm -rf "$folder"
}
trap finish EXIT

fail() {
  echo "top_test.sh: $1" >&2
  terminal capture-pane -p >&2
  exit 1
}
screen() { terminal capture-pane -p; }
shows() { # regular expression; waits until the screen has it
  local i
  for ((i = 0; i < 600; i++)); do
    screen 2>/dev/null | grep -qE -- "$1" && return
    sleep 0.05
  done
  fail "waited 30 s for: $1"
}
press() { terminal send-keys "$@"; }

"$ddprun" rendezvous --listen 127.0.0.1:0 --port-file "$folder/port" 2>"$folder/daemon.log" &
daemon=$!
pids+=("$daemon")
until [[ -s $folder/port ]]; do sleep 0.02; done
export DDPRUN_RDZV_ENDPOINT=127.0.0.1:$(<"$folder/port")
node() { # number [job [--nnodes]]
  "$ddprun" --nnodes "${3:-2}" --rdzv-id "${2:-train}" --rdzv-conf last_call_timeout=0 --nproc-per-node 2 --local-addr "127.0.0.$1" --log-dir "$folder/$1" \
    --max-restarts 3 --stop-grace 1s --no-python \
    /bin/sh -c 'echo $$ >'"$folder"'/pid.$DDPRUN_GENERATION.$RANK; echo I am rank $RANK; echo trouble >&2; exec sleep 1000' >"$folder/node$1.log" 2>&1 &
  pids+=($!)
}

# No job has joined yet.
terminal new-session -d -x 110 -y 30 "$ddprun top; echo ended with \$?; sleep 1000"
shows "rendezvous 127.0.0.1:[0-9]+: version .*, 0 jobs"

# A job appears by itself, and says what it waits for.
node 1
shows "train +Gathering .*waiting for 1 node"
node 2
shows ">train +Running .* 0 of 3 used"
press Enter
shows "job train: Running"
shows "  next +it goes on; 0 of 3 restarts used, 3 left"
shows "127.0.0.2 +running +[02]-[13]"

# A worker is killed: the cause is on the screen.
until [[ -s $folder/pid.0.3 ]]; do sleep 0.02; done
kill -KILL "$(<"$folder/pid.0.3")"
shows "  root cause  in generation 0: rank 3 .*SIGKILL"
shows "1 of 3 restarts used, 2 left"

# top follows the size of the terminal.
terminal resize-window -x 60 -y 20
shows "^  root cause  .{45}…$|^  root cause  .{0,46}$"
terminal resize-window -x 110 -y 30
shows "q quit$"

# Ranks, and the filter.
press r
shows "of 4, by rank"
press / 3 Enter
shows "of 1, by rank, with \"3\""
press Escape
shows "of 4, by rank"
press Down
press l
shows "log of rank 1 of job train"
shows "^stdout of generation 1:"
shows "^I am rank 1"
shows "^stderr of generation 1:"
shows "^trouble"
press Escape
shows "^>1 "
press t
shows "stacks of job train"
press Escape
shows "of 4, by rank"
press Escape
shows "NODE +ADDRESS"

# top asks before it gives an order.
press x
shows "Stop job train now\? .*y: yes"
press n
shows "q quit$"
press x
shows "Stop job train now\?"
press y
shows "job train: left"

# One of two agents on a host is drained. Then the job gets the order to save and stop.
node 3 more 1:2
press Escape
shows "more +Running"
node 4 more 1:2
press / more Enter Enter
shows "job more: Running"
shows "of 2, by trouble"
shows "  2 of .* nodes; 4 workers"
press d
shows "Drain 127.0.0.[34]\? .*y: yes"
press y
shows "job more forms the next generation without 127.0.0.[34] after a checkpoint"
shows "  1 of .* nodes?; 2 workers"
shows "job more: Running"
press w
shows "Save and stop job more\? y: yes"
press y
shows "job more: left"

press q
shows "ended with 0"

# Into a file, top prints once what the screen would show.
"$ddprun" top train >"$folder/plain" || fail "plain text: exit code $?"
grep -q "job train: left" "$folder/plain" || fail "plain text lacks the job: $(<"$folder/plain")"
grep -q $'\x1b' "$folder/plain" && fail "plain text has escape sequences"
"$ddprun" top nothing >"$folder/plain" 2>&1
[[ $? == 1 ]] || fail "a job that is not there: expected exit code 1"
# Without an answer of the rendezvous, top still reads keys and still ends.
node 5 last 1
until "$ddprun" status last >/dev/null 2>&1; do sleep 0.02; done  # top ends at once for a job that does not exist
terminal respawn-window -k "$ddprun top last --timeout 600s; echo ended with \$?; sleep 1000"
shows "job last: Running"
kill -STOP "$daemon"
press t
shows "asking the rendezvous"
press x
shows "Stop job last now\?"
press y q
shows "has not answered the order: stop job last"
shows "ended with 0"
echo "top_test.sh: done"
