"""The brokers' storage: logs, replicas and leaders.

Rules:
* Nothing here depends on the format of requests.
* A log changes only through `PartitionLog`, a partition's leader and in-sync replicas only through `Replication`.
* Every running in-sync replica has everything below the high watermark, except after an unclean election.

Modules; each line imports only from lines below it:
    replication     copies to followers, elections of leaders, in-sync replicas, high watermarks
    partition       topics, partitions and replicas, as data
    log             the log of one replica, and its producer state
    transactions    the transactions in a log
    batch           checks of record batches
    fetch_sessions  fetch sessions (KIP-227)
    purgatory       requests that wait for a change of a partition
"""
