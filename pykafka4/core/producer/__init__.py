"""The producer's machine: sends sealed batches to the leaders of their partitions.

Application threads append records to batches (`wire.records`). Once a batch is sealed, it is handled here, on the loop thread.
Invariant: a batch leaves its queue only when it is acknowledged, or fails and hands its records back.

Modules; each line imports only from lines below it:
    sender            takes sealed batches and chooses the next ones to send
    partition_status  of each partition: whether its records can be sent, since when not, and why
    sequences/        producer ids, epochs, and the sequence numbers of batches
    transactions/     transactions of a `transactional_id`
    produce/          Produce requests, and what their responses do to batches
    outcomes/         acknowledged and failed batches, delivery time-outs, counts of records
    queues/           batches in order, one queue per partition
    topics/           records that wait for metadata, deleted topics, size limits of batches
"""
