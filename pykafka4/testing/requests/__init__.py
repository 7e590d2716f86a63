"""Decodes the requests of a connection, executes them, and sends the responses.

Invariants:
* A handler's response is sent only through `Call.answer`, where throttling and the faults of responses take effect.
* An error that was ordered with `When.BEFORE` is read before a handler executes the request, or the part of the request, to which the
  error applies.

Modules; each line imports only from lines below it:
    handlers      the table of APIs and their functions
    produce       Produce
    fetch         Fetch
    offsets       ListOffsets, OffsetForLeaderEpoch
    topics        CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, DescribeLogDirs
    configs       DescribeConfigs, IncrementalAlterConfigs
    metadata      ApiVersions, Metadata, DescribeCluster
    transactions  InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit
    commits       OffsetCommit, OffsetFetch, OffsetDelete
    shares        ShareGroupHeartbeat, ShareFetch, ShareAcknowledge
    groups        membership of groups; descriptions, lists and deletion of groups; FindCoordinator
    partitions    the partitions of a request, with errors for partitions that another broker leads
    session       one connection: decodes and executes requests
"""
