#!/bin/bash
# The host's side of one rig: makes its control groups, starts its namespaces, and removes the
# control groups when the namespaces are gone.
#
# Standard input is the lifeline: when the other end closes, for whatever reason, init inside ends
# and with it everything in the rig. This process outlives that moment on purpose, to clean up.
#
# Standard output is a protocol, one event per line:
#   LOCKED                  this process holds the state directory's lock
#   PID <pid>               the host's pid of the rig's init
#   STEP <name> <seconds>   a stage of the start is reached
#   READY <seconds>         pods can run
#   FAILED <component> <reason...>
#   END <reason...>
set -u
: "${RIG_STATE:?}" "${RIG_CGROUP:?}"

# The lock tells a later sweep that this rig is alive. No child may keep it.
exec 8> "$RIG_STATE/lock"
flock --exclusive 8
echo LOCKED

# Every control group hierarchy: one (v2), or one per controller (v1), where runc also uses the
# hybrid v2 one.
cgroup_hierarchies() {
    local root=/sys/fs/cgroup dir
    if [ -e $root/cgroup.procs ]; then
        echo $root
        return
    fi
    for dir in "$root"/*; do
        if [ ! -L "$dir" ] && [ -e "$dir/cgroup.procs" ]; then
            echo "$dir"
        fi
    done
}

create_cgroups() {
    local hierarchy file controller controllers
    for hierarchy in $(cgroup_hierarchies); do
        if ! mkdir "$hierarchy/$RIG_CGROUP"; then
            echo "FAILED supervisor cannot create $hierarchy/$RIG_CGROUP: is a rig of this name running?"
            return 1
        fi
        # v1: a new cpuset is unusable until it names its processors and memory.
        for file in cpuset.cpus cpuset.mems; do
            if [ ! -e "$hierarchy/cgroup.controllers" ] && [ -e "$hierarchy/$file" ]; then
                cat "$hierarchy/$file" > "$hierarchy/$RIG_CGROUP/$file"
            fi
        done
        # v2: a controller reaches a child only if its parent passes it on.
        if [ -e "$hierarchy/cgroup.controllers" ]; then
            read -ra controllers < "$hierarchy/cgroup.controllers"
            for controller in "${controllers[@]}"; do
                echo "+$controller" > "$hierarchy/cgroup.subtree_control"
                echo "+$controller" > "$hierarchy/$RIG_CGROUP/cgroup.subtree_control"
            done
        fi
    done
}

# The kernel needs a moment after the last process until a control group can be removed.
remove_cgroups() {
    local hierarchy attempts
    for hierarchy in $(cgroup_hierarchies); do
        attempts=200
        while [ -d "$hierarchy/$RIG_CGROUP" ] && [ $attempts -gt 0 ]; do
            attempts=$((attempts - 1))
            find "$hierarchy/$RIG_CGROUP" -depth -type d -exec rmdir {} + 2> /dev/null \
                || sleep 0.05
        done
    done
}

if ! create_cgroups; then
    exit 1
fi

# When this process dies, unshare dies with it, init dies with unshare, and all others with init.
setpriv --pdeathsig KILL \
    unshare --mount --net --pid --ipc --uts --fork --kill-child=KILL \
    bash "$RIG_STATE/init.sh" <&0 8>&- &
unshare_pid=$!

# When this process is asked to stop, it kills init: only SIGKILL ends an init from outside.
trap 'kill -KILL "$(cat "$RIG_STATE/pid" 2> /dev/null || echo $unshare_pid)" 2> /dev/null' TERM INT HUP

# `wait` returns early when a signal arrives.
while kill -0 $unshare_pid 2> /dev/null; do
    wait $unshare_pid
done
remove_cgroups
rm -rf -- "$RIG_STATE"
