"""Runs the loop's side of a consumer: positions, Fetches, offset lookups. Fetched data is used only for the assignment and the position
for which it was requested.

Modules; each line imports only from lines below it:
    machine        polls the membership, fetcher, offsets and coordinator of one consumer; auto-commit
    fetcher        claims that are read, the choice of the next Fetch, the room for its response
    fetch_answers  the effects of Fetch responses: data, truncated logs, error codes
    tails          ends of bounded reads: gaps of compaction before the bound, logs that end earlier
    sources        the source of each partition
    followers      the followers that leaders chose for reading (KIP-392)
    source         one broker: its partitions, its Fetches in flight, requests and responses
    fetch_session  the state of one fetch session, as the broker has it (KIP-227)
    start_offsets  the first offsets of positions: committed offsets, resets, recreated topics
    losses         reports of offsets that the log has lost
    positions      all positions of a consumer; the hand-over of chunks and events to the application
    searches       offsets of log ends and times (ListOffsets)

The side on the thread that polls is `pykafka4.consumer.reading`; the machine uses it as a `PollingSide`.
"""
