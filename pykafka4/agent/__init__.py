"""Runs the agent, a daemon that takes messages from local programs and sends them to Kafka.

Invariant: while the process runs, each accepted message is acknowledged, waits, or is counted as discarded, with the reason. After
damage to the files of the spool, the count may be too low.

Modules; each line imports only from lines below it:
    service/   the process: start, signals, reload, end
    http/      pages, JSON, Prometheus
    inputs/    sockets: UNIX datagrams, UNIX stream, TCP
    router     passes each message to the producer or the spool, or discards it
    unknown    topics that brokers report as unknown or invalid
    limits     rate limits, which count messages as they arrive
    producing  options of the agent's producer, from the settings
    spool/     messages on disk that wait for the cluster
    account/   counts, reports of intervals, the log of discarded messages
    settings/  the TOML file and its values
    sending    the command line `pykafka4 send`
    client     Client, which sends messages to the agent
    channel    a client's socket: complete messages, bounded waits
    format     the bytes of a message
    message    values: messages, sources, reasons
"""

from __future__ import annotations

from pykafka4.agent.client import Client as Client
from pykafka4.agent.client import Loss as Loss

__all__ = ["Client", "Loss"]
