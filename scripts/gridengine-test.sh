#!/usr/bin/env bash
# A throw-away Grid Engine on loopback for the tests: no daemon of the system, no files outside of a folder, any user.
#
#   scripts/gridengine-test.sh DIR
#
# Everything lies below DIR, which must be empty or not there. `ready` on standard output means that it takes jobs;
# `. DIR/settings.sh` is all that a client needs. Standard input takes orders, one a line, each answered by `done`:
#
#   limit N      let every user have N jobs at most (0: any number)
#   stop         stop the master's process, so that it is there and does not answer
#   continue     let it go on
#   lose ID      let the master forget a job, and end the job's processes, as the loss of its machine does
#
# At the end of standard input, and so when whoever has started this is gone, it is taken down: every process by the number
# that it was started with. Exit code 3: it is not installed, or a host name cannot be resolved as Grid Engine requires.
#
# Grid Engine has one execution daemon per host name, so this is one machine, with 4 slots in `all.q` and the parallel
# environment `smp`.
set -uo pipefail
dir=${1:?usage: gridengine-test.sh DIR}
lib=/usr/lib/gridengine share=/usr/share/gridengine
for program in sge_qmaster sge_execd spoolinit qsub qconf qacct; do
    [ -x "$lib/$program" ] || {
        echo "gridengine-test: $program is not installed (gridengine-master, gridengine-exec, gridengine-client)" >&2
        exit 3
    }
done
mkdir -p "$dir" && chmod 755 "$dir" || exit 1
dir=$(cd "$dir" && pwd)
arch=$("$share/util/arch")
export SGE_ROOT=$dir/root SGE_CELL=default SGE_CLUSTER_NAME=sweeptest
common=$SGE_ROOT/$SGE_CELL/common
mkdir -p "$common" "$dir"/{spool/qmaster/job_scripts,spool/execd,db,run,log} "$SGE_ROOT"/{bin,utilbin,lib}
ln -s "$share/util" "$SGE_ROOT/util"
for folder in bin utilbin lib; do ln -s "$lib" "$SGE_ROOT/$folder/$arch"; done

# A port on which nobody listens now, below those that the system gives to whoever connects.
port() {
    local port
    while :; do
        port=$(shuf -i 20000-32767 -n 1)
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}
SGE_QMASTER_PORT=$(port) SGE_EXECD_PORT=$(port)
export SGE_QMASTER_PORT SGE_EXECD_PORT

configure() {
    local user
    user=$(id -un)
    # All names of this machine are one host, whatever order the system gives them in.
    echo "localhost $(hostname) $(hostname -s) $(getent hosts 127.0.0.1 | tr -s ' \n' ' ' | cut -d' ' -f2-)" |
        tr ' ' '\n' | awk 'NF && !seen[$0]++' | tr '\n' ' ' >"$common/host_aliases"
    echo localhost >"$common/act_qmaster"
    echo "$SGE_CLUSTER_NAME" >"$common/cluster_name"
    sed -e "s|^admin_user.*|admin_user $user|" -e 's|^ignore_fqdn.*|ignore_fqdn true|' \
        -e 's|^spooling_method.*|spooling_method classic|' -e 's|^spooling_lib.*|spooling_lib libspoolc|' \
        -e "s|^spooling_params.*|spooling_params $common;$dir/spool/qmaster|" \
        -e "s|^binary_path.*|binary_path $SGE_ROOT/bin|" -e "s|^qmaster_spool_dir.*|qmaster_spool_dir $dir/spool/qmaster|" \
        "$share/default-bootstrap" >"$common/bootstrap"
    sed -e "s|^execd_spool_dir.*|execd_spool_dir $dir/spool/execd|" -e 's|^min_.id.*|&|' -e 's|^min_uid.*|min_uid 0|' \
        -e 's|^min_gid.*|min_gid 0|' -e 's|^load_report_time.*|load_report_time 00:00:01|' -e 's|^mailer.*|mailer /bin/true|' \
        -e 's|^administrator_mail.*|administrator_mail none|' \
        -e 's|^execd_params.*|execd_params KEEP_ACTIVE=false,PTF_MIN_PRIORITY=0|' \
        -e 's|^reporting_params.*|reporting_params accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 joblog=false sharelog=00:00:00|' \
        "$share/default-configuration" >"$dir/configuration"
    cat >"$dir/settings.sh" <<SETTINGS
export SGE_ROOT=$SGE_ROOT SGE_CELL=$SGE_CELL SGE_CLUSTER_NAME=$SGE_CLUSTER_NAME
export SGE_QMASTER_PORT=$SGE_QMASTER_PORT SGE_EXECD_PORT=$SGE_EXECD_PORT
export PATH=$lib:\$PATH
SETTINGS
    {
        "$lib/spoolinit" classic libspoolc "$common;$dir/spool/qmaster" init
        "$lib/spooldefaults" configuration "$dir/configuration"
        "$lib/spooldefaults" complexes "$share/util/resources/centry"
        "$lib/spooldefaults" usersets "$share/util/resources/usersets"
        "$lib/spooldefaults" managers "$user"
    } >"$dir/log/init.out" 2>&1
}

start() { # NAME COMMAND…: in a session of its own, so that nothing that is sent to us reaches it
    local name=$1
    shift
    SGE_ND=1 setsid -- "$@" </dev/null >>"$dir/log/$name.out" 2>&1 &
    echo $! >"$dir/run/$name.pid"
    disown
}

# Whether the process with this number is still one of this folder's.
is_ours() { tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qxF "SGE_ROOT=$SGE_ROOT"; }

# What it has written is thrown away. Asked to end, the master spins in several threads for seconds.
stop() { # NAME
    local pid
    pid=$(cat "$dir/run/$1.pid" 2>/dev/null) && rm -f "$dir/run/$1.pid" && is_ours "$pid" && kill -KILL "$pid" 2>/dev/null
    return 0
}

# What jobs have started: it has this cell's root and a job's number in its environment.
job_processes() { # [ID]
    grep -lzFx "SGE_ROOT=$SGE_ROOT" /proc/[0-9]*/environ 2>/dev/null |
        xargs -r grep -lzx "JOB_ID=${1:-[0-9]*}" 2>/dev/null |
        tr -dc '0-9\n'
}

down() {
    trap - EXIT
    for name in execd qmaster; do stop "$name"; done
    for pid in $(job_processes); do kill -KILL "$pid" 2>/dev/null; done
    for pid in $(grep -lx sge_shepherd /proc/[0-9]*/comm 2>/dev/null | tr -dc '0-9\n'); do
        is_ours "$pid" && kill -KILL "$pid" 2>/dev/null
    done
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
    echo "gridengine-test: waited in vain for: $*" >&2
    tail -n 20 "$dir"/log/*.out "$dir"/spool/qmaster/messages "$dir"/spool/execd/*/messages /tmp/sge_messages /tmp/*_messages.* >&2 2>/dev/null
    return 1
}
answers() { timeout 5 "$lib/qconf" -sh >/dev/null 2>&1; }
alive() { timeout 5 "$lib/qhost" 2>/dev/null | awk '$1 == "localhost" && $4 != "-"' | grep -q .; }

configure
start qmaster "$lib/sge_qmaster"
wait_for 20 answers || exit 1
{
    "$lib/qconf" -ah localhost
    "$lib/qconf" -as localhost
    printf 'group_name @allhosts\nhostlist localhost\n' >"$dir/hosts"
    "$lib/qconf" -Ahgrp "$dir/hosts"
    cat >"$dir/pe" <<'PE'
pe_name smp
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
PE
    "$lib/qconf" -Ap "$dir/pe"
    "$lib/qconf" -sq | sed -e 's|^qname.*|qname all.q|' -e 's|^hostlist.*|hostlist @allhosts|' -e 's|^slots.*|slots 4|' \
        -e 's|^pe_list.*|pe_list smp|' -e 's|^shell .*|shell /bin/sh|' -e 's|^load_thresholds.*|load_thresholds NONE|' \
        -e 's|^terminate_method.*|terminate_method NONE|' -e 's|^notify.*|notify 00:00:10|' >"$dir/queue"
    "$lib/qconf" -Aq "$dir/queue"
    "$lib/qconf" -ssconf | sed -e 's|^schedule_interval.*|schedule_interval 0:0:1|' \
        -e 's|^flush_submit_sec.*|flush_submit_sec 1|' -e 's|^flush_finish_sec.*|flush_finish_sec 1|' \
        -e 's|^maxujobs.*|maxujobs 0|' >"$dir/scheduler"
    "$lib/qconf" -Msconf "$dir/scheduler"
} >>"$dir/log/init.out" 2>&1
start execd "$lib/sge_execd"
wait_for 30 alive || exit 1
echo ready

while read -r order argument; do
    case $order in
    limit)
        "$lib/qconf" -sconf global | sed -e "s|^max_u_jobs.*|max_u_jobs $argument|" >"$dir/global"
        "$lib/qconf" -Mconf "$dir/global" >>"$dir/log/init.out" 2>&1
        ;;
    stop) kill -STOP "$(cat "$dir/run/qmaster.pid")" ;;
    continue) kill -CONT "$(cat "$dir/run/qmaster.pid")" ;;
    lose)
        "$lib/qdel" -f "$argument" >>"$dir/log/init.out" 2>&1
        for pid in $(job_processes "$argument"); do kill -KILL "$pid" 2>/dev/null; done
        ;;
    esac
    echo done
done
down 0
