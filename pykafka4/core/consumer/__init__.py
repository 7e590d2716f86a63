"""The consumer's machine. Rule: fetched data counts only for the assignment and the position for which it was requested.

Modules; each line imports only from lines below it:

    machine        polls all parts of one consumer that run on the loop, `group` included
    fetcher        what is read, which broker gets the next Fetch, and how much room there is
    fetch_answers  what a Fetch response does: data, truncated logs, error codes
    sources        the source of each partition
    source         one broker: its partitions, its Fetch in flight, requests and responses
    fetch_session  what one broker knows from its fetch session (KIP-227)
    start_offsets  where positions begin: committed offsets, resets, recreated topics
    positions      all positions of a consumer, and what is passed on to the application
    searches       earliest and latest offsets of partitions (ListOffsets)
    reader         what `poll` takes, and which offsets are finished; called by the loop and by the application's thread
    fetch_buffer   what waits for `poll`: in order of arrival, and by claim
    handed_over    what was returned and is not committed by a transaction
    places         how far the application has got in each partition
"""
