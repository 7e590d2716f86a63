#!/bin/bash
# Starts Kafka in a container. The environment is the configuration, in the convention of the image apache/kafka.
#
#   KAFKA_NODE_ID=1, KAFKA_LISTENERS=…   every KAFKA_X_Y is the property x.y; __ stands for _ and ___ for -
#   CLUSTER_ID                           cluster id for which a folder without data is formatted
#   KAFKA_HEAP_OPTS, KAFKA_JVM_PERFORMANCE_OPTS, KAFKA_OPTS   for the JVM, no properties
set -eu
home=/opt/kafka
data=${KAFKA_LOG_DIRS:-/var/lib/kafka/data}

properties() {
    local entry key
    while IFS= read -r -d '' entry; do
        key=${entry%%=*}
        case $key in
            KAFKA_VERSION | KAFKA_HEAP_OPTS | KAFKA_JVM_PERFORMANCE_OPTS | KAFKA_OPTS | KAFKA_JMX_* | KAFKA_GC_LOG_OPTS | *LOG4J*) continue ;;
            KAFKA_*) key=${key#KAFKA_} ;;
            *) continue ;;
        esac
        key=${key,,} key=${key//_/.}
        key=${key//.../-} key=${key//../_}
        printf '%s=%s\n' "$key" "${entry#*=}"
    done < <(env -0)
}

# The image has a folder that was formatted when the image was made: a copy saves the start of a JVM. Its ids must be this node's own.
format() {
    local directory
    directory=a$(tr -dc A-Za-z0-9 </dev/urandom | head -c 20)A
    mkdir -p "$data"
    cp -r "$home/seed/." "$data/"
    sed -i -e "s/^node\.id=.*/node.id=$KAFKA_NODE_ID/" -e "s/^cluster\.id=.*/cluster.id=$CLUSTER_ID/" \
        -e "s/^directory\.id=.*/directory.id=$directory/" "$data/meta.properties"
}

properties >"$home/server.properties"
[ -e "$data/meta.properties" ] || format
# shellcheck disable=SC2086 # options are words
exec java ${KAFKA_HEAP_OPTS-} ${KAFKA_JVM_PERFORMANCE_OPTS-} ${KAFKA_OPTS-} \
    "-Dlog4j2.configurationFile=$home/log4j2.yaml" -cp "$home/libs/*" kafka.Kafka "$home/server.properties"
