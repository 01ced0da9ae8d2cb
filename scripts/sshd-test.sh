#!/usr/bin/env bash
# Starts servers of OpenSSH on loopback for tests: one for each host box1, box2, …, each with a home of its own. Usage:
# sshd-test.sh FOLDER COUNT. `ssh -F FOLDER/config box1` reaches the first one. Prints `ready`, then does what standard input says,
# one command a line, and answers each with `done`:
#
#   kill HOST     ends the server with its connections, but not what those have started
#   start HOST    starts it again
#
# FOLDER/HOST/home/.rc is read by each login, and FOLDER/HOST/authorized_keys has the client's key. When standard input ends, so does
# all of it. The exit code is 3 where there is no OpenSSH.
set -u
dir=${1:?usage: sshd-test.sh FOLDER COUNT} count=${2:-1}
sshd=$(PATH=$PATH:/usr/sbin command -v sshd) && command -v ssh ssh-keygen >/dev/null || exit 3
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
hosts=$(seq -f 'box%g' "$count")
# The servers' processes. Not in files, which may be gone before the servers.
declare -A pids
# A server of root separates its privileges, and needs this folder.
[ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd

# A port on which nobody listens now, below those that the system gives to whoever connects.
port() {
    local port
    while :; do
        port=$(shuf -i 20000-32767 -n 1)
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}

configure() { # HOST
    local box=$dir/$1
    mkdir -p "$box/home"
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$box/hostkey" || return 1
    echo "$1 $(cat "$box/hostkey.pub")" >>"$dir/known_hosts"
    cp "$dir/key.pub" "$box/authorized_keys"
    port >"$box/port"
    # Each host is a machine of its own: it has a home, and locks that others do not see.
    cat >"$box/login" <<LOGIN
#!/bin/sh
export HOME='$box/home' SWEEP_LOCKS='$box/home' SWEEP_SSHD_TEST='$dir'
cd "\$HOME" || exit 1
[ ! -f .rc ] || . ./.rc
exec sh -c "\$SSH_ORIGINAL_COMMAND"
LOGIN
    chmod 755 "$box/login"
    cat >"$box/sshd_config" <<CONF
Port $(cat "$box/port")
ListenAddress 127.0.0.1
HostKey $box/hostkey
PidFile none
AuthorizedKeysFile $box/authorized_keys
AuthenticationMethods publickey
PermitRootLogin yes
StrictModes no
UsePAM no
PrintMotd no
MaxStartups 100
MaxSessions 100
ForceCommand $box/login
CONF
    cat >>"$dir/config" <<CONF
Host $1
  HostName 127.0.0.1
  HostKeyAlias $1
  Port $(cat "$box/port")
  User $(id -un)
CONF
}

start() { # HOST
    "$sshd" -D -e -f "$dir/$1/sshd_config" </dev/null >>"$dir/$1/log" 2>&1 &
    pids[$1]=$!
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$(cat "$dir/$1/port")") 2>/dev/null && return 0
        sleep 0.05
    done
    tail -n 5 "$dir/$1/log" >&2
    return 1
}

# The processes that a process has started, and those that these have, as long as they are servers of OpenSSH.
sessions() { # PID
    local stat pid name parent
    for stat in /proc/[0-9]*/stat; do
        [ -r "$stat" ] || continue
        read -r pid name _ parent _ 2>/dev/null <"$stat" || continue
        [ "$parent" = "$1" ] && [[ $name == '(sshd'* ]] && { echo "$pid"; sessions "$pid"; }
    done
}

stop() { # HOST
    local pid children
    pid=${pids[$1]:-}
    [ -n "$pid" ] || return 0
    unset "pids[$1]"
    children=$(sessions "$pid")
    kill -KILL "$pid" $children 2>/dev/null
    wait "$pid" 2>/dev/null
}

# What was started on a host carries this folder's name.
left() { grep -lzFx "SWEEP_SSHD_TEST=$dir" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'; }

down() {
    trap - EXIT
    local host pid
    for host in $hosts; do stop "$host"; done
    for pid in $(left); do kill -KILL "$pid" 2>/dev/null; done
    rm -rf "$dir"
    exit "${1:-0}"
}
trap 'down 1' EXIT
trap 'down 0' TERM INT HUP

ssh-keygen -q -t ed25519 -N '' -C '' -f "$dir/key" || exit 1
: >"$dir/config"
for host in $hosts; do configure "$host" || exit 1; done
cat >>"$dir/config" <<CONF
Host *
  IdentityFile $dir/key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile $dir/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
CONF
for host in $hosts; do start "$host" || exit 1; done
echo ready

while read -r order host; do
    case $order in
    kill) stop "$host" ;;
    start) start "$host" ;;
    esac
    echo done
done
down 0
