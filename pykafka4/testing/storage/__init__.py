"""Stores the brokers' logs, copies them to replicas, and elects leaders.

Invariants:
* Only `fetch_sessions` imports the declarations of requests.
* Only `PartitionLog` adds and removes batches; only `Replication` changes a partition's leader and in-sync replicas.

Modules; each line imports only from lines below it:
    replication     copies to followers, elections of leaders, in-sync replicas, high watermarks
    partition       topics, partitions and replicas, as data
    log             the log of one replica, and its producer state
    transactions    the transactions in a log
    batch           checks of record batches
    fetch_sessions  fetch sessions (KIP-227)
    purgatory       requests that wait for a change of a partition
"""
