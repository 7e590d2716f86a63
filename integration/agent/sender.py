"""Sends numbered messages to the agent. The program runs as a file and shares no code with pykafka4.

Its argument is JSON: `to` (a path or a port), `kind` (datagram, stream), `topics`, `name`, `first`, `count`, `size`, `rate` (per second,
0: as fast as it can), `partition_key` (modulus, 0: AnyPartition), `wait` (whether it waits while the datagram queue is full). Message n
goes to topic n % len(topics), with key `name-topic number`, value `name n` filled up to `size`, timestamp START_MS + n. It prints JSON:
`sent`, `refused` (the numbers that the socket did not accept), `longest` (seconds of one send).
"""

import json
import socket
import struct
import sys
import time

START_MS = 1_790_000_000_000  # milliseconds


def packed(topic: bytes, key: bytes, value: bytes, partition_key: int | None, timestamp: int) -> bytes:
    head = struct.pack(">hhh", 256, 0, 0) if partition_key is None else struct.pack(">hhhI", 257, 0, 0, partition_key)
    body = head + struct.pack(f">h{len(topic)}sq", len(topic), topic, timestamp)
    body += struct.pack(f">i{len(key)}si{len(value)}s", len(key), key, len(value), value)
    return struct.pack(">i", 4 + len(body)) + body


def connected(order: dict) -> socket.socket:  # type: ignore[type-arg]
    if isinstance(order["to"], int):
        return socket.create_connection(("127.0.0.1", order["to"]))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if order["kind"] == "datagram" else socket.SOCK_STREAM)
    sock.connect(order["to"])
    return sock


def main(order: dict) -> None:  # type: ignore[type-arg]
    topics = [topic.encode() for topic in order["topics"]]
    name, modulus, rate = order["name"], order["partition_key"], order["rate"]
    sock = connected(order)
    if not order["wait"]:
        sock.setblocking(False)
    refused, longest, sent = [], 0.0, 0
    begin = time.monotonic()
    for n in range(order["first"], order["first"] + order["count"]):
        if rate:
            time.sleep(max(0.0, begin + (n - order["first"]) / rate - time.monotonic()))
        which = n % len(topics)
        value = f"{name} {n} ".encode().ljust(order["size"], b".")
        data = packed(topics[which], f"{name}-{which}".encode(), value, n % modulus if modulus else None, START_MS + n)
        before = time.monotonic()
        try:
            sock.sendall(data) if order["kind"] == "stream" else sock.send(data)
            sent += 1
        except OSError:
            refused.append(n)
        longest = max(longest, time.monotonic() - before)
    sock.close()
    print(json.dumps({"sent": sent, "refused": refused, "longest": longest}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
