#!/bin/bash
# Runs as process 1 of a machine that is a container: starts the services of a boot, and ends them in order on a shutdown (docker stop).
stop() {
    for script in /etc/rc0.d/K*; do
        [ "$(basename "$(readlink -f "$script")")" = ssh ] || "$script" stop
    done
    exit 0
}
trap stop TERM INT
for script in /etc/rc2.d/S*; do
    [ -x "$script" ] && "$script" start
done
while :; do
    sleep 3600 &
    wait $!
done
