"""Sends numbered messages with pykafka4.agent.Client until standard input ends. Invariant: each number is sent or refused, once.

Its argument is JSON: `kind` (datagram, stream, tcp), `to` (a path or a port), `topic`, `name`, `rate` (per second), `size`,
`partition_key` (or null). It prints JSON:
`sent` (how many numbers it used), `refused` (numbers for which `send` returned False), `lost` (the client's counts), `longest` (seconds of
one `send`).
"""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

from pykafka4.agent import Client

__all__: list[str] = []


def client_of(order: dict[str, Any]) -> Client:
    if order["kind"] == "tcp":
        return Client.tcp(order["to"])
    return Client(order["to"]) if order["kind"] == "datagram" else Client.stream(order["to"])


def main(order: dict[str, Any]) -> None:
    refused, longest, n = [], 0.0, 0
    with client_of(order) as client:
        begin = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            time.sleep(max(0.0, begin + n / order["rate"] - time.monotonic()))
            value = f"{order['name']} {n} ".encode().ljust(order["size"], b".")
            before = time.monotonic()
            if not client.send(order["topic"], value, key=order["name"], partition_key=order["partition_key"]):
                refused.append(n)
            longest = max(longest, time.monotonic() - before)
            n += 1
    lost = {loss.value: count for loss, count in client.lost.items()}
    sys.stdout.write(json.dumps({"sent": n, "refused": refused, "lost": lost, "longest": longest}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
