#!/bin/bash
# Boot. Rule: process 1 of a machine that is a container: it starts what starts at boot, and on a shutdown (docker stop) ends it in order.
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
