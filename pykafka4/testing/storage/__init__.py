"""The brokers' storage: logs, replicas and leaders. Requests that wait for changes of these are kept in `purgatory`.

Rules:
* Nothing here depends on the format of requests.
* A log changes only through `PartitionLog`, a partition's leader and in-sync replicas only through `Replication`.
* Every running in-sync replica has everything below the high watermark, except after an unclean election.
"""
