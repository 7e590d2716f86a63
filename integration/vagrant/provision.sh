#!/bin/bash
# Makes a Kafka node of any Debian or Ubuntu machine. Invariant: only differences are changed, so a second run changes nothing.
#
# Run as root, any number of times. The script prints its changes, and restarts the broker only after a change.
#   NODE_ID, HOST, VOTERS    this node's number, its address, and all nodes: 1@192.168.57.11:9093,2@…
#   CLIENT                   host:port that the broker advertises to clients, instead of HOST:9092
#   CLUSTER_ID               cluster id for which an empty node is formatted
#   LIBS                     folder with the jars; default: libs of the upload, or /srv/kafka/libs
#   KAFKA_ARCHIVE            without such a folder: path or address of a kafka_….tgz with the jars
#   KAFKA_VERSION            without an archive: the version that Maven downloads, by the upload's pom.xml
#   UPLOAD                   the folder with this script's companions: kafka-node.sh, pom.xml, settings/, and perhaps libs/ and seed/
#
#   provision.sh install     only packages, jars and the script; nothing is configured, nothing is started
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
upload=${UPLOAD:-/tmp/kafka-upload} home=/opt/kafka config=/etc/kafka data=/var/lib/kafka log=/var/log/kafka
changed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { echo "changed: $*"; changed=1; }

put() { # SOURCE TARGET MODE [OWNER]
    cmp -s "$1" "$2" && return
    install -D -m "$3" -o "${4:-root}" "$1" "$2"
    say "$2"
}

refresh() {
    [ -n "${updated-}" ] || apt-get update -qq
    updated=yes
}

packages() {
    refresh
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    say "packages $*"
}

# -- programs ------------------------------------------------------------------------------------------------------------------

java_version() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'; }

new_enough() {
    local found
    found=$(command -v java >/dev/null && java_version) || found=0
    [ "${found:-0}" -ge 17 ]
}

java_runtime() {
    local wanted
    ! new_enough || return 0
    refresh
    for wanted in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do # not every release has the first
        [ -n "$(apt-cache madison "$wanted")" ] || continue
        packages "$wanted"
        break
    done
    # The default Java of an old release is too old, and an older Java may be first on the path.
    new_enough || { echo "no Java 17 or newer: the brokers need one, and this release's packages brought none" >&2; exit 1; }
}

programs() {
    command -v pgrep >/dev/null || packages procps
    command -v setpriv >/dev/null || packages util-linux
    java_runtime
}

# -- jars ----------------------------------------------------------------------------------------------------------------------

folder_of_jars() {
    local folder folders=("$upload/libs" /srv/kafka/libs)
    [ -z "${LIBS-}" ] || folders=("$LIBS")
    for folder in "${folders[@]}"; do
        ! compgen -G "$folder/*.jar" >/dev/null || { echo "$folder"; return; }
    done
}

from_folder() { cp "$(folder_of_jars)"/*.jar "$1"; }

from_archive() { # FOLDER
    local archive=$KAFKA_ARCHIVE
    if [ ! -e "$archive" ]; then
        command -v curl >/dev/null || packages curl ca-certificates
        curl -fsSL -o "$scratch/kafka.tgz" "$archive"
        archive=$scratch/kafka.tgz
    fi
    tar -C "$scratch" -xzf "$archive"
    cp "$scratch"/kafka_*/libs/*.jar "$1"
}

from_maven() { # FOLDER
    command -v mvn >/dev/null || packages maven
    mvn -q -B -f "$upload/pom.xml" -P broker ${KAFKA_VERSION:+"-Dkafka.version=$KAFKA_VERSION"} \
        dependency:copy-dependencies "-DoutputDirectory=$1"
}

# The stamp names the source of the jars. They are replaced all at once, so the folder never has two versions, or a part of one.
jars() {
    local source stamp
    if [ -n "$(folder_of_jars)" ]; then
        source=folder stamp="folder $(cd "$(folder_of_jars)" && cksum ./*.jar | cksum)"
    elif [ -n "${KAFKA_ARCHIVE-}" ]; then
        source=archive stamp="archive $KAFKA_ARCHIVE"
    else
        source=maven stamp="maven ${KAFKA_VERSION-} $(cksum <"$upload/pom.xml")"
    fi
    [ "$(cat "$home/libs/.from" 2>/dev/null)" = "$stamp" ] && return
    rm -rf "$home/libs.new"
    mkdir -p "$home/libs.new"
    "from_$source" "$home/libs.new"
    echo "$stamp" >"$home/libs.new/.from"
    rm -rf "$home/libs"
    mv "$home/libs.new" "$home/libs"
    say "$home/libs from $source"
}

# -- configuration -------------------------------------------------------------------------------------------------------------

folder() { # PATH
    [ -d "$1" ] && return
    install -d -o kafka -g kafka "$1"
    say "$1"
}

# The settings of this node come last: of two lines with the same key, Kafka takes the last.
properties() {
    cat <<P
node.id=$NODE_ID
broker.rack=rack-$NODE_ID
controller.quorum.voters=$VOTERS
listeners=CLIENT://0.0.0.0:9092,ADMIN://0.0.0.0:9094,CONTROLLER://0.0.0.0:9093
advertised.listeners=CLIENT://${CLIENT:-$HOST:9092},ADMIN://$HOST:9094
log.dirs=$data/data
P
    cat "$upload/settings/broker.properties"
    if [ -e "$upload/settings/kafka$NODE_ID.properties" ]; then cat "$upload/settings/kafka$NODE_ID.properties"; fi
}

configuration() {
    local file
    if ! getent passwd kafka >/dev/null; then
        useradd --system --user-group --home-dir "$data" --no-create-home --shell /usr/sbin/nologin kafka
        say "user kafka"
    fi
    folder "$data"
    folder "$log"
    if [ -d "$upload/seed" ] && [ ! -e "$data/seed" ]; then
        cp -r "$upload/seed" "$data/seed.new"
        chown -R kafka: "$data/seed.new"
        mv "$data/seed.new" "$data/seed"
        say "$data/seed"
    fi
    properties >"$scratch/server.properties"
    put "$scratch/server.properties" "$config/server.properties" 644
    for file in jvm.options log4j2.yaml; do put "$upload/settings/$file" "$config/$file" 644; done
    [ ! -e "$upload/settings/kafka$NODE_ID.pem" ] || put "$upload/settings/kafka$NODE_ID.pem" "$config/keystore.pem" 600 kafka
    if [ ! -e "$config/cluster.id" ]; then # a node that has data keeps its cluster
        echo "${CLUSTER_ID:-abcdefghijklmnopqrstug}" >"$config/cluster.id"
        say "$config/cluster.id"
    fi
}

# -- service -------------------------------------------------------------------------------------------------------------------

unit() {
    cat <<U
[Unit]
Description=Kafka node
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
User=kafka
ExecStart=$home/kafka-node run
ExecStop=+$home/kafka-node end
StandardOutput=append:$log/server.log
StandardError=inherit
SuccessExitStatus=143
TimeoutStopSec=60

[Install]
WantedBy=multi-user.target
U
}

service() {
    if [ -d /run/systemd/system ]; then
        unit >"$scratch/unit"
        put "$scratch/unit" /etc/systemd/system/kafka.service 644
        systemctl daemon-reload
        systemctl is-enabled -q kafka || { systemctl enable -q kafka; say "kafka starts at boot"; }
    elif [ ! -e /etc/init.d/kafka ]; then
        ln -s "$home/kafka-node" /etc/init.d/kafka
        update-rc.d kafka defaults
        say "/etc/init.d/kafka"
    fi
}

# The first of three nodes has no quorum and serves no client yet, so this waits only until its controller listens.
serve() {
    [ "$changed" = 0 ] || "$home/kafka-node" stop || true
    [ "$("$home/kafka-node" status)" != down ] || { "$home/kafka-node" start; say "broker started"; }
    for _ in $(seq 600); do
        (exec 3<>"/dev/tcp/$HOST/9093") 2>/dev/null && return
        [ "$("$home/kafka-node" status)" != down ] || break
        sleep 0.1
    done
    echo "the broker does not listen on $HOST:9093; the end of its log:" >&2
    tail -n 20 "$log/server.log" >&2
    exit 1
}

programs
jars
put "$upload/kafka-node.sh" "$home/kafka-node" 755
[ "${1-}" != install ] || exit 0
: "${NODE_ID:?}" "${HOST:?}" "${VOTERS:?}"
configuration
service
serve
[ "$changed" = 1 ] || echo "nothing to change"
