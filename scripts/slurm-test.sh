#!/usr/bin/env bash
# A throw-away Slurm cluster on loopback for the tests: no systemd, no cgroups, no database, any user.
#
#   scripts/slurm-test.sh DIR
#
# Everything lies below DIR, which must be empty or not there. `ready` on standard output means that the cluster is up;
# `export SLURM_CONF=DIR/etc/slurm.conf` is all that a client needs. Standard input takes orders, one a line, each answered by
# `done`:
#
#   restart      stop the controller and start it again with the queue that it had
#   forget       let the controller forget the jobs that have ended
#   kill NODE    end a node's daemon and all that it runs, as a power failure does
#
# At the end of standard input, and so when whoever has started this is gone, the cluster is taken down: every process by the
# number that it was started with. Exit code 3: something is not installed.
#
# Partition `debug` (the default) has the nodes n1 and n2, n2 with two pretended GPUs; `frail` has n3 and n4, for tests that kill.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
dir=${1:?usage: slurm-test.sh DIR}
for program in munged mungekey slurmctld slurmd sbatch squeue scancel sinfo scontrol; do
    command -v "$program" >/dev/null || { echo "slurm-test: $program is not installed (slurm-wlm, munge)" >&2; exit 3; }
done
mkdir -p "$dir"/{etc,run,log,state,spool,munge} && chmod 755 "$dir" "$dir"/* || exit 1
dir=$(cd "$dir" && pwd)
export SLURM_CONF=$dir/etc/slurm.conf
nodes=(n1 n2 n3 n4)

# A port on which nobody listens now, below those that the system gives to whoever connects; nobody else asks for ports
# from this range in an order like this.
port() {
    local port
    while :; do
        port=$(shuf -i 20000-32767 -n 1)
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}

configure() {
    local host user node
    host=$(hostname -s) user=$(id -un)
    : >"$dir/etc/cgroup.conf"
    # A pretended GPU must be a device, or Slurm counts it and does not show it to the job.
    printf 'NodeName=n2 Name=gpu File=%s\n' /dev/zero /dev/full >"$dir/etc/gres.conf"
    cat >"$SLURM_CONF" <<CONF
ClusterName=sweeptest
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(port)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.own
SlurmdPidFile=$dir/run/slurmd.%n.own
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1,default_queue_depth=10000
PriorityType=priority/basic
MinJobAge=600
KillWait=2
CompleteWait=0
InactiveLimit=0
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=5
MaxJobCount=20000
GresTypes=gpu
SlurmdParameters=config_overrides
CONF
    for node in "${nodes[@]}"; do
        local gres=
        [ "$node" = n2 ] && gres=' Gres=gpu:2'
        echo "NodeName=$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$(port) CPUs=4 RealMemory=1000 State=UNKNOWN$gres"
    done >>"$SLURM_CONF"
    cat >>"$SLURM_CONF" <<CONF
PartitionName=debug Nodes=n1,n2 Default=YES MaxTime=INFINITE DefaultTime=60 State=UP
PartitionName=frail Nodes=n3,n4 MaxTime=INFINITE DefaultTime=60 State=UP
CONF
}

start() { # NAME COMMAND…: in a session of its own, so that nothing that is sent to us reaches it
    local name=$1
    shift
    setsid -- "$@" </dev/null >>"$dir/log/$name.out" 2>&1 &
    echo $! >"$dir/run/$name.pid"
}

# Whether the process with this number is still one of this cluster's: numbers are given out again, and a process that nobody
# has waited for still has one.
is_ours() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF "$dir/"; }

stop() { # NAME
    local pid
    pid=$(cat "$dir/run/$1.pid" 2>/dev/null) && rm -f "$dir/run/$1.pid" && is_ours "$pid" || return 0
    kill -TERM "$pid" 2>/dev/null
    for _ in $(seq 100); do
        is_ours "$pid" || return 0
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
}

# What jobs have started outlives the daemons. It carries this cluster's configuration and a job's number.
job_processes() { # [NODE]
    grep -lzFx "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ 2>/dev/null |
        xargs -r grep -lz '^SLURM_JOB_ID=' 2>/dev/null |
        xargs -r grep -lzx "SLURMD_NODENAME=${1:-.*}" 2>/dev/null |
        tr -dc '0-9\n'
}

# What Slurm itself starts for a job: it holds a socket below the spool folder.
steps() { # [NODE]
    local inodes comm pid link
    inodes=$(awk -v d="$dir/spool/${1:-}" 'index($8, d) == 1 { print $7 }' /proc/net/unix)
    for comm in $(grep -lx slurmstepd /proc/[0-9]*/comm 2>/dev/null); do
        pid=${comm#/proc/} pid=${pid%/comm}
        for link in /proc/"$pid"/fd/*; do
            link=$(readlink "$link" 2>/dev/null) || continue
            case $link in socket:*) grep -qx "${link//[^0-9]/}" <<<"$inodes" && { echo "$pid"; break; } ;; esac
        done
    done
}

down() {
    trap - EXIT
    if timeout 5 scontrol ping 2>/dev/null | grep -q 'is UP'; then
        timeout 10 scontrol update PartitionName=debug State=DOWN 2>/dev/null
        timeout 10 scontrol update PartitionName=frail State=DOWN 2>/dev/null
        timeout 5 squeue -h -o %A | sort -u | xargs -r timeout 20 scancel 2>/dev/null
        for _ in $(seq 40); do
            [ -z "$(timeout 5 squeue -h -o %A 2>/dev/null)" ] && break
            sleep 0.1
        done
    fi
    for node in "${nodes[@]}"; do stop "slurmd-$node"; done
    stop slurmctld
    stop munged
    for pid in $(job_processes) $(steps); do kill -KILL "$pid" 2>/dev/null; done
    [ -z "${KEEP:-}" ] && rm -rf "$dir"
    exit "${1:-0}"
}
trap 'down 1' EXIT
trap 'down 0' TERM INT HUP

wait_for() { # SECONDS COMMAND…
    local tries=$(($1 * 10))
    shift
    for _ in $(seq "$tries"); do
        "$@" && return 0
        sleep 0.1
    done
    echo "slurm-test: waited in vain for: $*" >&2
    tail -n 20 "$dir"/log/* >&2
    return 1
}
answers() { munge -S "$dir/munge/socket" -n >/dev/null 2>&1; }
idle() {
    local states
    states=$(timeout 5 sinfo -h -N -o %T 2>/dev/null) && [ -n "$states" ] && ! grep -qvx idle <<<"$states"
}
forgotten() { [ -z "$(timeout 5 squeue -h -t CD,F,CA,TO,NF -o %A)" ]; }
up() { timeout 5 scontrol ping 2>/dev/null | grep -q 'is UP'; }

configure
mungekey --create --keyfile="$dir/munge/key" || exit 1
start munged munged --foreground --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/munge/seed"
wait_for 10 answers || exit 1
start slurmctld slurmctld -D -c -f "$SLURM_CONF"
for node in "${nodes[@]}"; do start "slurmd-$node" slurmd -D -N "$node" -f "$SLURM_CONF"; done
wait_for 60 idle || exit 1
echo ready

while read -r order argument; do
    case $order in
    restart)
        stop slurmctld
        start slurmctld slurmctld -D -f "$SLURM_CONF"
        wait_for 60 up
        ;;
    forget)
        sed -i 's/^MinJobAge=.*/MinJobAge=2/' "$SLURM_CONF"
        timeout 10 scontrol reconfigure
        wait_for 40 forgotten
        sed -i 's/^MinJobAge=.*/MinJobAge=600/' "$SLURM_CONF"
        timeout 10 scontrol reconfigure
        ;;
    kill)
        pid=$(cat "$dir/run/slurmd-$argument.pid")
        is_ours "$pid" && kill -KILL "$pid"
        for pid in $(steps "$argument") $(job_processes "$argument"); do kill -KILL "$pid" 2>/dev/null; done
        ;;
    esac
    echo done
done
down 0
