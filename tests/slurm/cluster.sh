#!/bin/bash
# A real Slurm of several nodes on one host, without systemd.
# usage: tests/slurm/cluster.sh DIR start N | stop | crash|boot|cut|restore|hide|unhide nI
#   DIR      state, logs and slurm.conf; not below /tmp, because each node has a /tmp of its own
#   crash    powers a node off: slurmd and every process of the node die at once; boot is the reverse
#   hide     cuts a node off from the controller only; unhide is the reverse
#   cut      takes a node off the network, and leaves its processes alone; restore is the reverse
# Each node is a network, mount, pid and UTS namespace with the address 10.77.0.(10+I), and has its own /dev/shm and
# /tmp. A checkout of the repository below /tmp is also in the node's /tmp. The controller is 10.77.0.1.
# Needs root and the packages slurmctld slurmd slurm-client munge iproute2.
# To use it:  . DIR/env   and then sbatch, srun, squeue, scancel, scontrol.
set -u
die() {
  echo "cluster.sh: $*" >&2
  exit 1
}
[[ $# -ge 2 ]] || {
  sed -n 3,10p "$0"
  exit 2
}
D=$(realpath -m "$1")
checkout=$(realpath "$(dirname "$0")/../..")
export SLURM_CONF=$D/slurm.conf
PORT=17000
# A requeued job waits as long as its credentials live (5 s at least), and 1 s more.
CRED_EXPIRE=5
KILL_WAIT=5

# A pid file holds "PID STARTTIME", so that another process with the same pid is never taken for ours.
alive() { # pid file
  local pid started
  read -r pid started 2>/dev/null <"$1" || return 1
  [[ $(awk '$3 != "Z" {print $22}' "/proc/$pid/stat" 2>/dev/null) == "$started" ]]
}
record() { # name pid
  echo "$2 $(awk '{print $22}' "/proc/$2/stat")" >"$D/pids/$1"
}
end() { # name signal
  local pid file=$D/pids/$1 k
  [[ -f $file ]] || return 0
  if alive "$file"; then
    read -r pid _ <"$file"
    kill "-$2" "$pid" 2>/dev/null
    for ((k = 0; k < 50; ++k)); do
      alive "$file" || break
      sleep 0.1
    done
    alive "$file" && kill -KILL "$pid" 2>/dev/null
  fi
  rm -f "$file"
}

# Starts node I. The node's pid 1 is a bash, which reaps the processes without a parent.
boot() {
  local node=n$1
  mkdir -p "$D/spool.$node"
  setsid nsenter "--net=/run/netns/slurm-$node" \
    unshare --uts --mount --pid --fork --mount-proc --kill-child \
    bash -c 'hostname "$1"
             mount --bind "$2/hosts" /etc/hosts
             # A checkout below /tmp is there on the nodes too.
             if [[ $3 == /tmp/* ]]; then
               mkdir -p "$2/checkout" && mount --bind "$3" "$2/checkout"
             fi
             mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm
             if [[ $3 == /tmp/* ]]; then mkdir -p "$3" && mount --bind "$2/checkout" "$3"; fi
             slurmd -D -N "$1" -f "$2/slurm.conf" & daemon=$!
             trap "kill -TERM $daemon" TERM
             while kill -0 $daemon 2>/dev/null; do wait $daemon; done' init "$node" "$D" "$checkout" \
    </dev/null >>"$D/log/$node.out" 2>&1 &
  # The pid of unshare: with --kill-child, its end is the node's end. setsid and nsenter become unshare.
  local pid=$! k
  for ((k = 0; k < 100; ++k)); do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) == unshare ]] && break
    sleep 0.01
  done
  record "slurmd.$node" "$pid"
}

wait_idle() { # count seconds
  local k
  for ((k = 0; k < $2 * 10; ++k)); do
    [[ $(sinfo -h -N -o '%N %t' 2>/dev/null | awk '$2 == "idle"' | wc -l) -eq $1 ]] && return 0
    sleep 0.1
  done
  sinfo -N -l >&2
  tail -n 5 "$D"/log/* >&2
  return 1
}

network_up() { # count
  local i
  network_down
  ip link add slurmbr0 type bridge && ip addr add 10.77.0.1/24 dev slurmbr0 &&
    ip link set slurmbr0 up || die "cannot make a bridge"
  for ((i = 1; i <= $1; ++i)); do
    ip netns add "slurm-n$i" && ip link add "slv$i" type veth peer name eth0 netns "slurm-n$i" ||
      die "cannot make a network namespace"
    ip link set "slv$i" master slurmbr0 up
    ip -n "slurm-n$i" addr add "10.77.0.$((10 + i))/24" dev eth0
    ip -n "slurm-n$i" link set eth0 up
    ip -n "slurm-n$i" link set lo up
    ip -n "slurm-n$i" route add default via 10.77.0.1
  done
}
network_down() {
  local namespace
  for namespace in $(ip netns list 2>/dev/null | awk '$1 ~ /^slurm-n[0-9]+$/ {print $1}'); do
    # The link first: a deleted namespace releases its link late.
    ip link del "slv${namespace#slurm-n}" 2>/dev/null
    ip netns del "$namespace"
  done
  ip link del slurmbr0 2>/dev/null
  return 0
}

write_configuration() { # count
  local i
  {
    cat /etc/hosts
    echo "10.77.0.1 slurm-ctl"
    for ((i = 1; i <= $1; ++i)); do echo "10.77.0.$((10 + i)) n$i"; done
  } >"$D/hosts"
  {
    cat <<CONF
ClusterName=ddprun
SlurmctldHost=$(hostname)(10.77.0.1)
SlurmctldPort=$PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$D/munge/munge.socket.2,cred_expire=$CRED_EXPIRE
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool.%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/spool.%n/slurmd.pid
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=5
BatchStartTimeout=10
KillWait=$KILL_WAIT
WaitTime=0
InactiveLimit=0
MinJobAge=3600
CONF
    for ((i = 1; i <= $1; ++i)); do
      echo "NodeName=n$i NodeAddr=10.77.0.$((10 + i)) NodeHostname=n$i Port=$((PORT + 1))" \
        "CPUs=2 RealMemory=1000 State=UNKNOWN"
    done
    echo "PartitionName=main Nodes=n[1-$1] Default=YES MaxTime=INFINITE State=UP"
  } >"$D/slurm.conf"
  printf 'export SLURM_CONF=%q\n' "$D/slurm.conf" >"$D/env"
}

start() { # count
  local i program
  for program in munged slurmctld slurmd sinfo unshare ip; do
    command -v "$program" >/dev/null || die "no $program"
  done
  [[ $(id -u) == 0 ]] || die "needs root"
  [[ $D != /tmp/* ]] || die "each node has its own /tmp: choose another place than $D"
  for i in "$D"/pids/*; do alive "$i" && die "already running in $D"; done
  rm -rf "$D"
  mkdir -p "$D"/{pids,log,state,munge}
  chmod 755 "$D" "$D/munge"
  network_up "$1"
  write_configuration "$1"
  head -c 128 /dev/urandom >"$D/munge/key"
  chmod 600 "$D/munge/key"
  setsid munged -F --key-file="$D/munge/key" --socket="$D/munge/munge.socket.2" \
    --pid-file="$D/munge/pid" --seed-file="$D/munge/seed" </dev/null >>"$D/log/munged.out" 2>&1 &
  record munged $!
  for ((i = 0; i < 50; ++i)); do
    [[ -S $D/munge/munge.socket.2 ]] && break
    sleep 0.1
  done
  [[ -S $D/munge/munge.socket.2 ]] || die "munged: $(tail -n 3 "$D"/log/munged.out)"
  setsid slurmctld -D -i -f "$D/slurm.conf" </dev/null >>"$D/log/slurmctld.out" 2>&1 &
  record slurmctld $!
  for ((i = 1; i <= $1; ++i)); do boot "$i"; done
  wait_idle "$1" 30 || die "not every node is idle"
}

stop() {
  local file
  [[ -d $D/pids ]] || return 0
  for file in "$D"/pids/slurmd.*; do
    [[ -f $file ]] && end "${file##*/}" KILL # this ends the whole node
  done
  end slurmctld TERM
  end munged TERM
  network_down
}

case $2 in
  start) start "${3:?how many nodes}" ;;
  stop) stop ;;
  crash)
    alive "$D/pids/slurmd.$3" || die "no $3"
    end "slurmd.$3" KILL
    ;;
  boot) boot "${3#n}" ;;
  cut) ip link set "slv${3#n}" down ;;
  restore) ip link set "slv${3#n}" up ;;
  hide) ip -n "slurm-$3" route add blackhole 10.77.0.1/32 ;;
  unhide) ip -n "slurm-$3" route del blackhole 10.77.0.1/32 ;;
  *) die "unknown: $2" ;;
esac
