#!/bin/bash
### BEGIN INIT INFO
# Provides:          kafka
# Required-Start:    $network $local_fs
# Required-Stop:     $network $local_fs
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: Kafka node
### END INIT INFO
# Controls the one broker of a machine. Invariant: its command line identifies the broker, never a file, which may come from an earlier run.
#
#   kafka-node start | stop | status       by systemd where it runs, else by itself; status prints running (exit status 0), down (3)
#                                          or frozen (150)
#   kafka-node kill | freeze | thaw        SIGKILL, SIGSTOP, SIGCONT; return when the signal has had its effect
#   kafka-node reset CLUSTER_ID            end the broker and empty it, formatted for another cluster
#   kafka-node keystore BASE64             replace the PEM file with the key and the certificate that it shows to clients
#   kafka-node run | end [SECONDS]         what the service does: be the broker; ask it to end, and kill it where that cannot succeed
#
# provision.sh puts all files that this script reads into /etc/kafka.
set -u
CONFIG=/etc/kafka LIBS=/opt/kafka/libs DATA=/var/lib/kafka LOG=/var/log/kafka/server.log
KILLED=/run/kafka.killed
BROKER='java .*kafka\.Kafka /etc/kafka/server\.properties$'

pid() { pgrep -o -f "$BROKER"; }

status() {
    local pid state
    pid=$(pid) || { echo down; return 3; }
    state=$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null)
    case $state in '' | Z | X) echo down; return 3 ;; T) echo frozen; return 150 ;; *) echo running ;; esac
}

# Wait until `status` prints STATE (with !: no longer prints STATE), at most SECONDS.
until_status() { # [!] STATE SECONDS
    local wanted=true deadline
    [ "$1" = ! ] && { wanted=false; shift; }
    deadline=$((SECONDS + $2))
    while :; do
        if [ "$(status)" = "$1" ]; then $wanted && return 0; else $wanted || return 0; fi
        [ "$SECONDS" -ge "$deadline" ] && return 1
        sleep 0.1
    done
}

signal() { local pid; pid=$(pid) && kill "-$1" "$pid" 2>/dev/null; }

jvm() { exec java @"$CONFIG/jvm.options" "-Dlog4j2.configurationFile=$CONFIG/log4j2.yaml" "-Djava.io.tmpdir=$DATA/tmp" -cp "$LIBS/*" "$@"; }

# The first format takes a JVM; a later one (reset) only copies the folder of the first, which may come from another machine.
format() { # CLUSTER_ID
    if [ ! -e "$DATA/seed/meta.properties" ]; then
        rm -rf "$DATA/data"
        (jvm kafka.tools.StorageTool format -t "$1" -c "$CONFIG/server.properties") >&2 || return 1
        mkdir "$DATA/seed" && mv "$DATA/data"/* "$DATA/seed/" && rm -rf "$DATA/data"
    fi
    cp -r "$DATA/seed" "$DATA/data.new"
    sed -i -e "s/^cluster\.id=.*/cluster.id=$1/" -e "s/^directory\.id=.*/directory.id=$(directory_id)/" \
        -e "s/^node\.id=.*/node.id=$(setting node.id)/" "$DATA/data.new/meta.properties"
    mv "$DATA/data.new" "$DATA/data"
}

setting() { sed -n "s/^${1//./\\.}=//p" "$CONFIG/server.properties" | tail -n 1; } # KEY

# 22 characters that are 16 bytes in base64: the last one has two bits and must be one of A, Q, g and w.
directory_id() { printf a; tr -dc A-Za-z0-9 </dev/urandom | head -c 20; printf A; }

run() {
    mkdir -p "$DATA/tmp"
    rm -rf "$DATA/data.new"
    [ -e "$DATA/data/meta.properties" ] || format "$(cat "$CONFIG/cluster.id")" || exit 1
    jvm kafka.Kafka "$CONFIG/server.properties"
}

# Whether a majority of the controllers runs: a broker needs it to move its leaders before it ends.
quorum() {
    local voters voter address alive=0
    IFS=, read -ra voters <<<"$(setting controller.quorum.voters)"
    for voter in "${voters[@]}"; do
        address=${voter#*@}
        timeout 1 bash -c "exec 3<>/dev/tcp/${address%:*}/${address##*:}" 2>/dev/null && alive=$((alive + 1))
    done
    [ $((2 * alive)) -gt "${#voters[@]}" ]
}

end() { # SECONDS
    local deadline=$((SECONDS + ${1:-25}))
    rm -f "$KILLED"
    signal CONT
    signal TERM
    while ! until_status down 1; do
        [ "$SECONDS" -lt "$deadline" ] && quorum && continue
        echo "the broker could not end in order: it is killed" >&2
        : >"$KILLED"
        signal KILL
        until_status down 10
        return
    done
}

systemd() { [ -d /run/systemd/system ]; }

start() {
    if systemd; then
        systemctl start kafka
    elif [ "$(status)" = down ]; then
        setsid setpriv --reuid=kafka --regid=kafka --clear-groups -- "$0" run >>"$LOG" 2>&1 </dev/null &
    fi
    until_status ! down 60 || { tail -n 20 "$LOG" >&2; return 1; }
}

# Returns 1 if the broker had to be killed.
stop() {
    if systemd; then systemctl stop kafka; else end "$@"; fi
    [ ! -e "$KILLED" ] || { rm -f "$KILLED"; return 1; }
}

case ${1-} in
    start | status) "$1" ;;
    stop | end) "$@" ;;
    run) run ;;
    restart | force-reload) stop; start ;;
    kill) signal KILL; until_status down 10 ;;
    freeze) signal STOP; until_status frozen 10 ;;
    thaw) signal CONT; until_status ! frozen 10 ;;
    keystore) base64 -d <<<"$2" | install -o kafka -m 600 /dev/stdin "$CONFIG/keystore.pem" ;;
    reset) signal KILL; until_status down 10 && echo "$2" >"$CONFIG/cluster.id" && rm -rf "$DATA/data" ;;
    *) sed -n '/^#   kafka-node/s/^# *//p' "$0" >&2; exit 2 ;;
esac
