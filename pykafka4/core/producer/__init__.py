"""The producer's machine. Rule: a batch leaves its queue only when it is acknowledged, or fails and hands its records back.

Application threads append records to batches (`wire.records`). Once a batch is sealed, it is handled here, on the loop thread.

Modules; each line imports only from lines below it:

    sender      takes sealed batches and chooses which of them to send next
    transactions, transaction_offsets, transaction_requests
                transactions of a transactional id: when they begin and end, offsets of groups in them, errors of coordinators
    standing    which partitions are offline, since when and why
    transacted  the records, as the transactions see them
    answers     what the response to a Produce request does to its batches
    deadlines   delivery time-outs, back-offs of queues
    outcomes    batches that were acknowledged or failed
    requests    builds Produce requests and counts those in flight
    parking     records whose topic is unknown
    missing     records of topics that no longer exist
    late        batches that get their partition when they are sent
    limits      how large a batch the brokers take, by topic
    obstacles   why a batch could not be sent, or was not acknowledged in time
    ready       the queues with something to send, by leader
    queues      one queue per partition: batches in order, how many are in flight, epoch and sequence numbers
    identity    producer ids and epochs
    ledger      counts of records: accepted = acked + queued + in flight + failed + dropped
    losses      sums of what failed and what was dropped
"""
