"""The consumer's machine. Rule: fetched data counts only for the assignment and the position for which it was requested.

Modules; each line imports only from lines below it:
    machine        polls all parts of one consumer that run on the loop, `group` included
    fetcher        what is read, which broker gets the next Fetch, and how much room there is
    fetch_answers  what a Fetch response does: data, truncated logs, error codes
    tails          ends of partitions that are read up to an offset: gaps of compaction before it, logs that end before it
    sources        the source of each partition
    followers      the followers that leaders chose for reading (KIP-392)
    source         one broker: its partitions, its Fetch in flight, requests and responses
    fetch_session  what one broker knows from its fetch session (KIP-227)
    start_offsets  where positions begin: committed offsets, resets, recreated topics
    losses         offsets that the log lost before they were read
    positions      all positions of a consumer, and what is passed on to the application
    searches       earliest and latest offsets of partitions (ListOffsets)

The side of a consumer on the thread that polls is `pykafka4.consumer.reading`. The machine knows it as `PollingSide`.
"""
