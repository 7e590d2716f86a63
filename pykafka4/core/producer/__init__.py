"""Sends sealed batches to the leaders of their partitions: the producer's machine.

Application threads append records to batches (`wire.records`). This folder sends the batches, on the loop thread, and moves parked records
into batches. The threads that call `stats` and `status` compute the results from data of the loop.
Invariant: every accepted record gets exactly one outcome.

Modules; each line imports only from lines below it:
    sender            `Sender`: the machine, which takes sealed batches and chooses the next batches to send
    partition_status  the state of each partition: online or offline, since when, and why
    sequences/        producer ids, epochs, and the sequence numbers of batches
    transactions/     transactions of a `transactional_id`
    produce/          Produce requests, and the effects of their responses on batches
    outcomes/         acknowledged and failed batches, delivery timeouts, counts of records
    queues/           batches in order, one queue per partition; brokers that fall behind (`partitioner="late"`)
    topics/           records that wait for metadata, deleted topics, size limits of batches
"""
