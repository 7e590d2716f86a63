"""Defines the work of a measured process of `benchmarks.contender`, in one module per client.

Invariant: all clients get the same records and the same loop.

Modules; each line imports only from lines below it:
    confluent  the cases with confluent-kafka
    ours       the cases with pykafka4
    load       the records, and the loop around a client's calls
"""
