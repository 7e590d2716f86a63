"""The consumer's machine. Invariant: fetched data counts only for the assignment and the position for which it was requested.

Modules; each line imports only from lines below it:

    machine        polls everything of one consumer that runs on the loop, `group` included
    fetcher        what is read, which brokers are asked for it next, and how much there is room for
    fetch_answers  what the answer to a Fetch does: data, truncated logs, error codes
    sources        in which broker's line each partition stands
    source         one broker: its partitions, its Fetch in flight, the request and the answer
    session        what one broker was told in its fetch session (KIP-227)
    start_offsets  where positions begin: committed offsets, resets, topics that were created again
    positions      all positions of a consumer, and what the application is told of them
    searches       first and last offsets of partitions (ListOffsets)
    reader         what `poll` takes, and which offsets are finished; called by the loop and by the application's thread
    fetch_buffer   what waits for `poll`: in order of arrival, and by claim
"""
