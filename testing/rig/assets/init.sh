#!/bin/bash
# The rig's side: pid 1 of its namespaces. Makes the mounts and the network, starts Kubernetes,
# reports over standard output (see supervisor.sh), and ends with the lifeline or with a component
# that must not end. The kernel then kills all the rest.
set -u
: "${RIG_NAME:?}" "${RIG_STATE:?}" "${RIG_LOG:?}" "${RIG_CLUSTER:?}" "${RIG_PATH:?}" "${RIG_IMAGES:?}"
: "${NODE_NAME:?}" "${NODE_IP:?}" "${API_PORT:?}" "${SERVICE_CIDR:?}" "${POD_CIDR:?}"
: "${START_DEADLINE:?}"

home=/run/rig
began=${EPOCHREALTIME/./}

seconds() {
    local elapsed=$(( (${EPOCHREALTIME/./} - began) / 10000 ))
    printf '%d.%02d' $((elapsed / 100)) $((elapsed % 100))
}

# ---- mounts ---------------------------------------------------------------------------------

# Without the table that mount keeps below /run: that directory is about to be replaced.
mount() {
    command mount --no-mtab "$@"
}

make_mounts() {
    # Still private: `unshare` cut this mount namespace off from the host's.
    mount -t proc proc /proc
    # A sysfs of this network namespace, with the control groups as they were.
    mount -t sysfs sysfs /srv
    mount --rbind /sys/fs/cgroup /srv/fs/cgroup
    mount --move /srv /sys

    # Files from the host may be below a directory that is covered next, so they are first mounted
    # in /mnt. /run is the rig's own: CDI, containerd, netns and runc all live there.
    local part
    mount -t tmpfs -o size=75%,mode=755 tmpfs /mnt
    mkdir -p /mnt/rig/cluster /mnt/rig/log /mnt/cdi
    cp -a "$RIG_STATE/files/." /mnt/rig/
    mount --bind "$RIG_CLUSTER" /mnt/rig/cluster
    mount -o remount,bind,ro /mnt/rig/cluster
    mount --bind "$RIG_LOG" /mnt/rig/log
    mount --move /mnt /run

    # Overlays, so that directories can be made without touching the host's.
    for part in etc var opt; do
        mkdir -p $home/overlay/$part/upper $home/overlay/$part/work
        mount -t overlay overlay /$part \
            -o "lowerdir=/$part,upperdir=$home/overlay/$part/upper,workdir=$home/overlay/$part/work"
    done
    # containerd's own overlays cannot lie on an overlay.
    for part in containerd kubelet etcd; do
        mkdir -p /var/lib/$part
        mount -t tmpfs -o mode=755 tmpfs /var/lib/$part
    done
    mount -t tmpfs tmpfs /dev/shm
    mkdir -p /etc/cdi $home/hold $home/held $home/pids
    : > /etc/resolv.conf

    # From here on, mounts spread within the rig, which is a peer group of its own. So pods with
    # Bidirectional mounts work, and the host sees nothing of them.
    mount --make-rshared /
}

# These settings have no namespace. Show the kubelet the values it wants, so that it writes none.
show_kernel_settings() {
    local setting value file
    while read -r setting value; do
        file=$home/sysctl/$setting
        mkdir -p "${file%/*}"
        echo "$value" > "$file"
        if [ -e "/proc/sys/$setting" ]; then
            mount --bind "$file" "/proc/sys/$setting"
        fi
    done << 'SETTINGS'
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
SETTINGS
}

make_network() {
    echo "rig-$RIG_NAME" > /proc/sys/kernel/hostname
    busybox ip link set lo up
    busybox ip addr add "$NODE_IP/32" dev lo
    # Processes of the node reach Services only if there is some route for kube-proxy to rewrite.
    busybox ip route add "$SERVICE_CIDR" dev lo src "$NODE_IP"
    echo 1 > /proc/sys/net/ipv4/ip_forward
}

# ---- components -----------------------------------------------------------------------------

# Ends boot, and thereby init and everything else.
fail() {
    echo "FAILED $*"
    kill -TERM $boot_pid
    exit 1
}

# Runs a component for as long as the rig lives; its pid is in pids/NAME. A file hold/NAME keeps it
# down, which held/NAME confirms. An end that nobody asked for is an error, except for those that
# `restarts` lists: they end when the API server restarts at the wrong moment, such as during their
# own start, and on a real node something starts them again.
restarts=" kubelet kube-scheduler kube-controller-manager "

supervise() {
    local name=$1 status
    shift
    while :; do
        while [ -e "$home/hold/$name" ]; do
            : > "$home/held/$name"
            sleep 0.05
        done
        rm -f "$home/held/$name"
        "$@" >> "$home/log/$name.log" 2>&1 &
        echo $! > "$home/pids/$name"
        status=0
        wait $! || status=$?
        rm -f "$home/pids/$name"
        if [ -e "$home/hold/$name" ]; then
            continue
        fi
        echo "rig: $name ended with status $status" >> "$home/log/$name.log"
        if [[ $restarts != *" $name "* ]]; then
            fail "$name" "ended with status $status"
        fi
        sleep 0.2
    done
}

start_component() {
    # A directory of logs may be used again, under the same name.
    : > "$home/log/$1.log"
    supervise "$@" < /dev/null &
}

# wait_for COMPONENT WHAT COMMAND...: until the command succeeds.
wait_for() {
    local component=$1 what=$2
    shift 2
    until "$@" > /dev/null 2>&1; do
        if [ $(( (${EPOCHREALTIME/./} - began) / 1000000 )) -ge "$START_DEADLINE" ]; then
            fail "$component" "did not get as far as '$what' within $START_DEADLINE s"
        fi
        sleep 0.05
    done
}

listening() {
    (exec 3<> "/dev/tcp/127.0.0.1/$1")
}

containerd_ctl() {
    ctr --address /run/containerd/containerd.sock --namespace k8s.io "$@"
}

node_is_ready() {
    local status
    status=$(kubectl get node "$NODE_NAME" \
        --output 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')
    [ "$status" = True ]
}

start_etcd() {
    # Everything is in memory, so syncing it would protect nothing.
    start_component etcd etcd --data-dir=/var/lib/etcd/data --unsafe-no-fsync --log-level=warn
}

start_apiserver() {
    local pki=$home/pki
    # shellcheck disable=SC2086 # the extra arguments are words
    start_component kube-apiserver kube-apiserver \
        --etcd-servers=http://127.0.0.1:2379 \
        --bind-address=0.0.0.0 \
        --advertise-address="$NODE_IP" \
        --secure-port="$API_PORT" \
        --tls-cert-file=$pki/server.crt \
        --tls-private-key-file=$pki/server.key \
        --client-ca-file=$pki/ca.crt \
        --token-auth-file=$pki/tokens.csv \
        --anonymous-auth=false \
        --authorization-mode=Node,RBAC \
        --enable-admission-plugins=NodeRestriction \
        --allow-privileged=true \
        --service-account-issuer=https://kubernetes.default.svc \
        --service-account-key-file=$pki/service-account.pub \
        --service-account-signing-key-file=$pki/service-account.key \
        --service-cluster-ip-range="$SERVICE_CIDR" \
        --kubelet-client-certificate=$pki/kubelet-client.crt \
        --kubelet-client-key=$pki/kubelet-client.key \
        --kubelet-preferred-address-types=InternalIP \
        ${APISERVER_EXTRA:-}
}

start_controllers() {
    # The default client limits alone would delay the first ServiceAccount by seconds.
    start_component kube-controller-manager kube-controller-manager \
        --kubeconfig=$home/kube-controller-manager.kubeconfig \
        --bind-address=127.0.0.1 \
        --leader-elect=false \
        --use-service-account-credentials=true \
        --service-account-private-key-file=$home/pki/service-account.key \
        --root-ca-file=$home/pki/ca.crt \
        --cluster-cidr="$POD_CIDR" \
        --service-cluster-ip-range="$SERVICE_CIDR" \
        --kube-api-qps=1000 \
        --kube-api-burst=2000 \
        ${CONTROLLERS_EXTRA:-}
}

start_node() {
    start_component kube-scheduler kube-scheduler \
        --config=$home/kube-scheduler.yaml \
        --bind-address=127.0.0.1
    start_component kubelet kubelet \
        --config=$home/kubelet.yaml \
        --kubeconfig=$home/kubelet.kubeconfig \
        --cert-dir=/var/lib/kubelet/pki \
        --hostname-override="$NODE_NAME" \
        --node-ip="$NODE_IP"
    start_component kube-proxy kube-proxy --config=$home/kube-proxy.yaml
}

boot() {
    boot_pid=$BASHPID
    set -eE
    trap 'echo "FAILED init line $LINENO: $BASH_COMMAND"' ERR
    make_mounts
    export PATH=$RIG_PATH:$PATH KUBECONFIG=$home/admin.kubeconfig
    show_kernel_settings
    make_network
    echo "STEP namespaces $(seconds)"

    start_etcd
    start_apiserver
    start_component containerd containerd --config $home/containerd.toml
    wait_for containerd "answering" containerd_ctl version
    containerd_ctl images import --local "$RIG_IMAGES" > "$home/log/images.log" 2>&1
    echo "STEP containerd $(seconds)"

    wait_for kube-apiserver "listening" listening "$API_PORT"
    wait_for kube-apiserver "ready" kubectl get --raw=/readyz
    echo "STEP apiserver $(seconds)"

    start_controllers
    start_node
    wait_for kubelet "node Ready" node_is_ready
    echo "STEP node $(seconds)"
    # Pods are admitted once their ServiceAccount exists, Services work once they are programmed.
    wait_for kube-controller-manager "default ServiceAccount" \
        kubectl get --namespace default serviceaccount default
    wait_for kube-proxy "Services programmed" \
        busybox wget -q -O /dev/null http://127.0.0.1:10256/healthz
    echo "READY $(seconds)"
    wait
}

# ---- init -----------------------------------------------------------------------------------

# The host's /proc is still mounted, so this is the host's view of init's pid.
read -r host_pid _ < /proc/self/stat
echo "$host_pid" > "$RIG_STATE/pid"
echo "PID $host_pid"

# The lifeline is watched from the first moment on; nothing else may hold it.
exec 9<&0 < /dev/null
{
    read -r _ <&9
    echo "END lifeline closed"
} &
boot 9<&- &
wait -n
