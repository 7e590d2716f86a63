"""Declares, encodes and decodes Kafka's requests and responses.

Invariant: a message is declared once for all its versions; each version is compiled on its first use. The declared fields, versions
and tags are Kafka's own, as a test checks.

Modules; each line imports only from lines below it:
    declared          imports every message, for the broker side (`pykafka4.testing`); `frame` loads it on demand
    frame             frames of a connection: size, header, message
    messages_cluster  ApiVersions, Metadata, FindCoordinator
    messages_produce  Produce
    messages_txn      producer ids and transactions
    messages_configs  settings of topics, brokers and other resources
    messages_fetch    Fetch, ListOffsets, OffsetForLeaderEpoch
    messages_group    consumer groups: membership, commits
    messages_share    share groups
    messages_sasl     authentication
    messages_admin    administration: topics, groups, offsets, the cluster, log directories
    messages_acls     access control lists
    messages_users    credentials, quotas, delegation tokens
    messages_producers  active producers, transactions under way
    messages_replicas   replicas, leaders, brokers, features, the metadata quorum
    messages_telemetry  metrics that brokers request from clients (KIP-714)
    schema            the decorators that declare messages; encoding and decoding
    compiler          generates the encoder and the decoder of a message in one version
    emitted           functions that generated code calls
    weight            the memory that decoded values take, and its limit
    fields            the types, versions, defaults and tags of fields
"""
