#!/bin/bash
# Builds worker/ against the installed torch, and tests it on a GPU. Needs no network. docs/internals/gpu-check.md says
# what each check does and how to run this.
# usage: scripts/gpu_check.sh --ddprun PATH [OPTION...]
#        scripts/gpu_check.sh --pack DIR [--ddprun PATH] [--gloo DIR]
#   --ddprun PATH    a static ddprun, built elsewhere; with --pack, build/bin/ddprun by default
#   --packages DIR   the folder that --pack has made: headers and libraries that are not installed here
#   --data DIR       MNIST's four files; by default the subset of tests/data/mnist
#   --python PATH    a Python that has torch; python3 or /usr/bin/python3 by default
#   --build DIR      the build folder; build/gpu by default
#   --bin DIR        a folder with programs that are already built; the script then builds nothing
#   --jobs N         number of compiler jobs
#   --work DIR       keeps logs and checkpoints in this folder; by default, a temporary folder that is removed
#   --cpu            the same checks with Gloo on the CPU: they test this script, and no GPU
#   --pack DIR       collects in DIR, for another machine: ddprun, and headers and libraries that worker/ needs
#   --gloo DIR       packs the headers DIR/gloo, which must be as old as the torch of the other machine; /usr/include by
#                    default
# Prints a line for each check, PASS or FAIL with the result; then how many passed and failed. Exit code 1 if a
# check failed, or if there is no GPU and no --cpu.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  echo "gpu_check.sh: $1; usage: scripts/gpu_check.sh --ddprun PATH [OPTION...], see its head" >&2
  exit 64
}

ddprun='' packages='' data=tests/data/mnist python='' build=build/gpu bin='' jobs=$(nproc) work=''
cpu=false pack='' gloo=/usr/include
while (($#)); do
  case $1 in
    --cpu) cpu=true ;;
    --ddprun | --packages | --data | --python | --build | --bin | --jobs | --work | --pack | --gloo)
      [[ -n ${2:-} ]] || usage "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    *) usage "unknown option '$1'" ;;
  esac
  shift
done

# ---- --pack: files for a machine that has a GPU and little else ----
if [[ -n $pack ]]; then
  mkdir -p "$pack"/{include,lib,share/cmake}
  cp -r /usr/include/{nlohmann,CLI,xxhash.h,xxh3.h,xxh_x86dispatch.h,zlib.h,zconf.h,openssl} "$pack/include"
  cp -r /usr/include/"$(gcc -print-multiarch)"/openssl/. "$pack/include/openssl"
  cp -r "$gloo/gloo" "$pack/include"
  libraries=/usr/lib/$(gcc -print-multiarch)
  cp -P "$libraries"/libz.a "$libraries"/libcrypto.a "$libraries"/libxxhash.so* "$pack/lib"
  cp -r /usr/share/cmake/{nlohmann_json,CLI11} "$pack/share/cmake"
  cp "${ddprun:-build/bin/ddprun}" "$pack/ddprun"
  if ldd "$pack/ddprun" | grep -qE 'grpc|protobuf|absl'; then
    echo "gpu_check.sh: $pack/ddprun is not static: build it with -DDDPRUN_STATIC=ON" >&2
    exit 1
  fi
  du -sh "$pack"
  exit
fi

# ---- verdicts ----
passed=0 failed=0
pass() { # check, what was seen
  echo "PASS $1: $2"
  passed=$((passed + 1))
}
fail() { # check, reason
  echo "FAIL $1: $2"
  failed=$((failed + 1))
}
finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0)) || exit 1
  exit 0
}

# ---- ddprun and torch of this machine ----
[[ -n $ddprun ]] || usage "--ddprun is missing"
[[ -x $ddprun ]] || usage "--ddprun $ddprun is no program"
ddprun=$(realpath "$ddprun")
data=$(realpath "$data")
for candidate in ${python:-python3 /usr/bin/python3}; do
  "$candidate" -c 'import torch' 2>/dev/null || continue
  found_python=$candidate
  break
done
[[ -n ${found_python:-} ]] || {
  fail torch "no torch in ${python:-python3 and /usr/bin/python3}"
  finish
}
python=$(command -v "$found_python")
IFS='|' read -r torch_version torch_folder gpus gpu_name < <("$python" -c '
import torch
n = torch.cuda.device_count() if torch.cuda.is_available() else 0
name = torch.cuda.get_device_name(0) if n else ""
print(torch.__version__, torch.__path__[0], n, name, sep="|")')
echo "torch $torch_version of $python, $gpus GPU(s) ${gpu_name}"
if $cpu; then
  echo "--cpu: Gloo on the CPU. This tests the script; it shows nothing about a GPU."
  backend=gloo device=cpu where=cpu gpus=0
elif ((gpus == 0)); then
  fail gpu "torch $torch_version sees no CUDA device: nothing was built and nothing was run. \
--cpu tries out the script itself"
  finish
else
  backend=nccl device=cuda where=cuda:0
fi

if [[ -n $work ]]; then
  mkdir -p "$work"
  work=$(realpath "$work")
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi

# ---- build ----
build_programs() {
  local options=(-DCMAKE_BUILD_TYPE=Release -DDDPRUN_LAUNCHER=OFF -DDDPRUN_TESTS=OFF
    -DDDPRUN_BENCH=ON)
  command -v ninja >/dev/null && options+=(-G Ninja)
  # A torch from pip is complete. Debian's python3-torch has its libraries in another folder.
  [[ -e $torch_folder/lib/libtorch_cpu.so ]] &&
    options+=("-DDDPRUN_TORCH_DIR=$torch_folder")
  $cpu || options+=(-DDDPRUN_NCCL=ON)
  if [[ -n $packages ]]; then
    packages=$(realpath "$packages")
    options+=("-DCMAKE_PREFIX_PATH=$packages" "-DDDPRUN_GLOO_INCLUDE_DIR=$packages/include"
      "-DCMAKE_EXE_LINKER_FLAGS=-L$packages/lib -Wl,-rpath,$packages/lib")
  fi
  cmake -S . -B "$build" "${options[@]}" &&
    cmake --build "$build" -j "$jobs" \
      --target mnist_ddp gpt_ddp ddp_bench_worker checkpoint_bench
}

if [[ -z $bin ]]; then
  bin=$build/bin
  SECONDS=0
  if build_programs >"$work/build.log" 2>&1; then
    pass build "worker/ against torch $torch_version in $SECONDS s"
  else
    grep -E 'rror' "$work/build.log" | head -20 || true
    tail -20 "$work/build.log"
    fail build "worker/ cannot be built against torch $torch_version, see above"
    finish
  fi
fi
bin=$(realpath "$bin")

# ---- jobs ----
limit=900  # seconds for one job, so that a check fails if a collective hangs
# NCCL refuses two ranks of one host on one GPU. So with one GPU, each rank claims to be on a host of its own, and the
# ranks talk over TCP, like ranks of two hosts.
shares_gpu() { [[ $2 == nccl ]] && (($1 > gpus)); }  # ranks, backend
# Starts ddprun, and sets `job` to its process id. The folder $work/NAME gets out, err and steps/rank<R>.log.
#   start NAME RANKS BACKEND DEVICE DDPRUN_OPTION... -- PROGRAM ARGUMENT...
start() {
  local name=$1 ranks=$2 through=$3 on=$4
  shift 4
  local options=()
  while [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  shift
  local apart=()
  shares_gpu "$ranks" "$through" && apart=(env NCCL_SOCKET_IFNAME=lo "NCCL_HOSTID=gpu-check-\${local_rank}")
  mkdir -p "$work/$name"
  GPU_CHECK_JOB=$work/$name timeout --kill-after=60 $limit "$ddprun" --quiet --log-dir "$work/$name/logs" \
    --nproc-per-node "$ranks" "${options[@]}" -- \
    "${apart[@]}" "$bin/$1" --backend "$through" --device "$on" --step-log "$work/$name/steps" "${@:2}" \
    >"$work/$name/out" 2>"$work/$name/err" &
  job=$!
}
# Waits for the process `job`: true if it succeeded. Otherwise prints the last lines of its output, and fails the check.
ended_well() { # check, name
  local code=0
  wait "$job" || code=$?
  ((code)) || return 0
  ((code == 124 || code == 137)) && echo "it had not ended after $limit s"
  tail -n 15 "$work/$2/out" "$work/$2/err"
  fail "$1" "ddprun ended with $code, see above"
  return 1
}
run() { # check, then the arguments of start()
  local check=$1
  shift
  start "$@"
  ended_well "$check" "$1"
}
printed() { # name, extended regular expression with one group: the group's last text
  sed -nE "s/.*$2.*/\\1/p" "$work/$1/out" | tail -1
}
ran_on() { # check, name, ranks, backend, device: true if the trainer says that it ran like this
  grep -q "with $3 workers over $4 on $5" "$work/$2/out" && return
  fail "$1" "it did not train with $3 workers over $4 on $5: $(grep -m1 'training on' "$work/$2/out")"
  return 1
}
at_most() { "$python" -c 'import sys; sys.exit(not float(sys.argv[1]) <= float(sys.argv[2]))' "$@"; }

# Prints the largest difference between the losses of two jobs in the same step, from the logs of one rank.
compare_losses() { # name, name, rank
  "$python" - "$work/$1/steps/rank$3.log" "$work/$2/steps/rank$3.log" <<'EOF'
import sys
def losses(path):  # of a step that was made twice, the last loss
    rows = (line.split() for line in open(path))
    return {int(row[2]): float(row[4]) for row in rows}
a, b = map(losses, sys.argv[1:])
assert a and a.keys() == b.keys(), "not the same steps"
print(f"{max(abs(a[step] - b[step]) for step in a):.3g}")
EOF
}

# Prints the distance between the models of two checkpoints, divided by the distance from a third model to the first.
distance() { # file, file, file of the third model
  "$python" - "$@" <<'EOF'
import json, struct, sys, torch
def model(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    entries = json.loads(data[8:8 + size])
    parts = []
    for name, entry in sorted(entries.items()):
        if name.startswith("model.") and entry["dtype"] == "F32":
            a, b = (8 + size + at for at in entry["data_offsets"])
            parts.append(torch.frombuffer(bytearray(data[a:b]), dtype=torch.float32))
    return torch.cat(parts)
a, b, start = map(model, sys.argv[1:])
print(f"{((a - b).norm() / (a - start).norm()).item():.3g}")
EOF
}

worker_of() { # name, rank: prints its process id
  local process
  for process in /proc/[0-9]*; do
    { tr '\0' '\n' <"$process/environ" | grep -qx "GPU_CHECK_JOB=$work/$1"; } 2>/dev/null || continue
    [[ $(readlink "$process/exe") == "$bin"/* ]] || continue
    tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -qx "RANK=$2" || continue
    echo "${process#/proc/}"
    return
  done
  return 1
}
# True once the rank has finished the step; false if the job ends before, or after two minutes.
reached() { # name, rank, step
  local log=$work/$1/steps/rank$2.log line deadline=$((SECONDS + 120))
  while kill -0 "$job" 2>/dev/null && ((SECONDS < deadline)); do
    line=$(tail -n 1 "$log" 2>/dev/null | cut -d' ' -f3)
    ((${line:-0} < $3)) || return 0
    sleep 0.02
  done
  return 1
}

# On a CPU, repeated trainings are equal to the last bit. A GPU adds up in another order each time.
exact=$cpu
loss_bound=0.05

# ---- the checks ----
check_mnist() {
  local name="mnist, 1 worker over $backend" accuracy
  run "$name" mnist 1 "$backend" "$device" -- mnist_ddp --data "$data" --epochs 2 || return 0
  ran_on "$name" mnist 1 "$backend" "$where" || return 0
  accuracy=$(printed mnist 'test accuracy ([0-9.]+)')
  if at_most 0.95 "${accuracy:-0}"; then
    pass "$name" "accuracy $accuracy on the test images after 2 epochs, at least 0.95 wanted"
  else
    fail "$name" "accuracy ${accuracy:-not printed}, at least 0.95 wanted"
  fi
}

check_gpt() {
  local name="gpt, 1 worker over $backend" loss precision
  run "$name" gpt 1 "$backend" "$device" -- gpt_ddp --data tests/data/text/gospels.txt \
    --depth 2 --width 64 --context 32 --lr 0.005 --max-steps 200 --sample 50 || return 0
  ran_on "$name" gpt 1 "$backend" "$where" || return 0
  loss=$(printed gpt 'validation loss ([0-9.]+)')
  precision=$(printed gpt 'per step, in ([a-z0-9]+)')
  if at_most "${loss:-9}" 2.4; then
    pass "$name" "validation loss $loss after 200 steps in $precision, at most 2.4 wanted"
  else
    fail "$name" "validation loss ${loss:-not printed} in $precision, at most 2.4 wanted"
  fi
}

# Kills the last rank of a job with kill -9. The job must continue from its newest saved state.
check_kill() { # check, name, ranks, backend, device
  local check=$1 name=$2 ranks=$3 through=$4 on=$5 victim other='' died step first difference
  local killed again stayed=
  local arguments=(--data tests/data/text/gospels.txt --depth 2 --width 32 --context 16
    --batch-size 4 --limit-text 50000 --max-steps 400 --checkpoint-every 20 --snapshot-every 7
    --precision float32 --sample 0)
  run "$check" "$name-undisturbed" "$ranks" "$through" "$on" \
    --checkpoint-dir "$work/$name-undisturbed/checkpoints" -- gpt_ddp "${arguments[@]}" || return 0
  start "$name" "$ranks" "$through" "$on" --max-restarts 1 \
    --checkpoint-dir "$work/$name/checkpoints" -- gpt_ddp "${arguments[@]}"
  if ! reached "$name" $((ranks - 1)) 50 || ! victim=$(worker_of "$name" $((ranks - 1))) ||
    ! { ((ranks == 1)) || other=$(worker_of "$name" 0); } || ! kill -9 "$victim"; then
    wait "$job" || true
    fail "$check" "the job ended before its worker could be killed after step 50"
    return 0
  fi
  killed=$(date +%s%3N)
  until grep -q '^1 ' "$work/$name/steps/rank0.log" || ! kill -0 "$job" 2>/dev/null; do sleep 0.005; done
  again=$(($(date +%s%3N) - killed))
  if [[ -n $other ]]; then
    stayed="rank 0's process $other did not stay; "
    [[ $(readlink "/proc/$other/exe") == "$bin"/* ]] && stayed="rank 0 stayed in process $other; "
  fi
  ended_well "$check" "$name" || return 0
  if [[ $stayed == *"did not stay"* ]]; then
    fail "$check" "${stayed%; }"
    return 0
  fi
  died=$(awk '$1 == 0 { step = $3 } END { print step }' "$work/$name/steps/rank0.log") || true
  step=$(printed "$name" 'resumed from step ([0-9]+)')
  first=$(awk '$1 == 1 { print $3; exit }' "$work/$name/steps/rank0.log") || true
  if [[ -z $step || $first != $((step + 1)) ]] || ((step > died || step + 20 < died)); then
    fail "$check" "worker $victim was killed after step $died; resumed from ${step:-nothing}, \
first step then: ${first:-none}"
    return 0
  fi
  difference=$(compare_losses "$name" "$name-undisturbed" 0) || true
  if at_most "${difference:-9}" "$($exact && echo 0 || echo $loss_bound)"; then
    pass "$check" "worker $victim killed after step $died, resumed from step $step; ${stayed}next step \
after $again ms; of 400 steps no loss differs from an undisturbed job's by more than $difference"
  else
    fail "$check" "resumed from step $step, but a loss differs by ${difference:-?} from an \
undisturbed job's"
  fi
}

# Two ranks run without a launcher, and one is killed. The other must end soon, with an error that names this rank.
check_lost_peer() { # check, name, backend, device
  local check=$1 name=$2 through=$3 on=$4 rank port seconds code=0 processes=() line apart=()
  port=$("$python" -c '
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
  mkdir -p "$work/$name"
  for rank in 0 1; do
    shares_gpu 2 "$through" && apart=(NCCL_SOCKET_IFNAME=lo "NCCL_HOSTID=gpu-check-$rank")
    env "${apart[@]}" RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
      MASTER_PORT="$port" timeout --kill-after=60 $limit "$bin/gpt_ddp" --backend "$through" \
      --device "$on" --step-log "$work/$name/steps" --data tests/data/text/gospels.txt --depth 2 \
      --width 32 --context 16 --batch-size 4 --limit-text 50000 --max-steps 100000 \
      --precision float32 --sample 0 >"$work/$name/out$rank" 2>"$work/$name/err$rank" &
    processes+=($!)
  done
  job=${processes[0]}
  if ! reached "$name" 1 20 || ! pkill -9 -P "${processes[1]}" -x gpt_ddp; then
    kill "${processes[@]}" 2>/dev/null || true
    tail -n 15 "$work/$name"/err*
    fail "$check" "the job ended before rank 1 could be killed after step 20"
    return 0
  fi
  seconds=$SECONDS
  wait "${processes[1]}" 2>/dev/null || true
  wait "$job" || code=$?
  seconds=$((SECONDS - seconds))
  line=$(grep -m1 -o 'Rank 1 has ended[^.]*' "$work/$name/err0" || true)
  if ((code != 0 && code != 124 && code != 137 && seconds <= 10)) && [[ -n $line ]]; then
    pass "$check" "rank 0 ended with $code within $seconds s of the kill of rank 1: \"$line\""
  else
    tail -n 15 "$work/$name/err0"
    fail "$check" "rank 0 ended with $code, $seconds s after the kill of rank 1, with \
${line:-nothing about it}; wanted is an error that names rank 1 within 10 s"
  fi
}

# Two ranks save. A second job of two ranks loads the checkpoint on both. At its end it must have the model of an
# uninterrupted job. On a GPU, the two models may differ by twice the distance between two uninterrupted jobs.
check_restore() { # check, name, backend, device
  local check=$1 name=$2 through=$3 on=$4 step away natural=0 bound
  local last=step-000000000080.safetensors arguments=(--data "$data" --checkpoint-every 20)
  run "$check" "$name-whole" 2 "$through" "$on" --checkpoint-dir "$work/$name-whole/checkpoints" \
    -- mnist_ddp "${arguments[@]}" --max-steps 80 || return 0
  $exact || run "$check" "$name-again" 2 "$through" "$on" --checkpoint-dir \
    "$work/$name-again/checkpoints" -- mnist_ddp "${arguments[@]}" --max-steps 80 || return 0
  run "$check" "$name" 2 "$through" "$on" --checkpoint-dir "$work/$name/checkpoints" \
    -- mnist_ddp "${arguments[@]}" --max-steps 40 || return 0
  cp "$work/$name/checkpoints/step-000000000040.safetensors" "$work/$name/saved" || {
    fail "$check" "the first job has not saved step 40"
    return 0
  }
  run "$check" "$name" 2 "$through" "$on" --checkpoint-dir "$work/$name/checkpoints" \
    -- mnist_ddp "${arguments[@]}" --max-steps 80 || return 0
  step=$(printed "$name" 'resumed from step ([0-9]+)')
  [[ $step == 40 ]] || {
    fail "$check" "the second job resumed from ${step:-nothing}, not from step 40"
    return 0
  }
  away=$(distance "$work/$name-whole/checkpoints/$last" "$work/$name/checkpoints/$last" \
    "$work/$name/saved") || true
  $exact || natural=$(distance "$work/$name-whole/checkpoints/$last" \
    "$work/$name-again/checkpoints/$last" "$work/$name/saved") || true
  bound=$("$python" -c 'import sys; print(2 * float(sys.argv[1]))' "${natural:-0}")
  if at_most "${away:-9}" "$bound"; then
    pass "$check" "saved at step 40, loaded and given to both ranks; at step 80 $away of the way \
from there away from a job that was not interrupted; two such jobs are $natural apart"
  else
    fail "$check" "at step 80 ${away:-?} of the way from step 40 away from a job that was not \
interrupted; two such jobs are ${natural:-?} apart"
  fi
}

# The losses of both ranks must equal the losses of two ranks on the CPU, which shows that the gradients were averaged.
check_two_ranks() { # check, name, backend, device, device of rank 0
  local check=$1 name=$2 through=$3 on=$4 first=$5 rank difference largest=0
  local arguments=(--data tests/data/text/gospels.txt --depth 2 --width 32 --context 16
    --batch-size 8 --limit-text 50000 --max-steps 60 --warm-up 5 --dropout 0 --lr 0.01
    --precision float32 --sample 0)
  run "$check" "$name-on-cpu" 2 gloo cpu -- gpt_ddp "${arguments[@]}" || return 0
  run "$check" "$name" 2 "$through" "$on" -- gpt_ddp "${arguments[@]}" || return 0
  ran_on "$check" "$name" 2 "$through" "$first" || return 0
  for rank in 0 1; do
    difference=$(compare_losses "$name" "$name-on-cpu" "$rank") || true
    at_most "${difference:-9}" "$largest" || largest=${difference:-9}
  done
  if at_most "$largest" "$($exact && echo 0 || echo 0.01)"; then
    pass "$check" "over 60 steps no loss of either rank differs from the CPU's by more than $largest"
  else
    fail "$check" "a loss differs from that of two ranks on the CPU by $largest"
  fi
}

check_bench() {
  local name="step times" ranks=2 rounds=3
  $cpu && rounds=1
  $cpu || ranks=$gpus
  if "$python" tests/bench/ddp_bench.py --models mnist --only ddp --rounds $rounds --bin "$bin" \
    --ddprun "$ddprun" --python "$python" --ranks "$ranks" --backend "$backend" \
    --device "$device" >"$work/bench" 2>"$work/bench.err"; then
    cat "$work/bench"
    pass "$name" "$ranks rank(s) over $backend; C++ and Python DDP of torch $torch_version come to \
the same loss"
  else
    cat "$work/bench" "$work/bench.err"
    fail "$name" "ddp_bench.py ended badly, see above"
  fi
}

check_stall() {
  local name="stall of a checkpoint" mib=1024 rounds=3 line
  $cpu && mib=64 rounds=9
  OMP_NUM_THREADS=1 timeout $limit "$bin/checkpoint_bench" --only save --mib "$mib" \
    --rounds "$rounds" --folder "$work" --device "$device" >"$work/stall" 2>&1 || true
  line=$(grep -m1 'stall of save, ×' "$work/stall" | sed -E 's/^ +//; s/ +/ /g' || true)
  cat "$work/stall"
  case $line in
    *PASS) pass "$name" "${line% PASS}" ;;
    *) fail "$name" "${line:-checkpoint_bench ended badly, see above}" ;;
  esac
}

check_mnist
check_gpt
check_kill "kill -9 and resume over $backend" kill 1 "$backend" "$device"
if $cpu; then
  shared="two ranks with Gloo"
else
  shared="two ranks with Gloo that share $where"
fi
check_two_ranks "$shared" two gloo "$device" "$where"
check_restore "save and broadcast, $shared" restore gloo "$device"
check_kill "kill -9 of one of $shared" kill-two 2 gloo "$device"
check_lost_peer "a lost peer, without a launcher, $shared" lost gloo "$device"
if ! $cpu; then
  shared="two ranks with NCCL"
  ((gpus >= 2)) || shared+=" that share $where"
  check_two_ranks "$shared" two-nccl nccl cuda "$where"
  check_restore "save and broadcast, $shared" restore-nccl nccl cuda
  check_kill "kill -9 of one of $shared" kill-nccl 2 nccl cuda
  check_lost_peer "a lost peer, without a launcher, $shared" lost-nccl nccl cuda
fi
check_bench
check_stall
finish
