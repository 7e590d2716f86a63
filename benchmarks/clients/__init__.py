"""Runs the cases of `benchmarks.contender`, with one module for each client.

Invariant: all clients get the same records and the same loop.

Modules; each line imports only from lines below it:
    confluent  the cases with confluent-kafka
    ours       the cases with pykafka4
    load       the records, and the loop around a client's calls
"""
