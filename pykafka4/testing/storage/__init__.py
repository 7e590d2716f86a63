"""What brokers store: logs, the replicas of each partition, and which replica leads. Requests that wait for these wait in `purgatory`.

Invariants:
* Nothing here knows what a request looks like.
* A log changes only through `PartitionLog`, a partition's leader and in-sync replicas only through `Replication`.
* Every in-sync replica that runs has what is below the high watermark, except after an unclean election.
"""
