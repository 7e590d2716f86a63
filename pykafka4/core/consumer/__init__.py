"""The consumer's machine. Invariant: fetched data counts only for the assignment and the position for which it was requested.

Modules; each line imports only from lines below it:

    machine    polls everything of one consumer that runs on the loop, `group` included
    fetcher    fetch positions: Fetch requests and their answers, offset resets, truncated logs
    searches   first and last offsets of partitions (ListOffsets)
    reader     what waits for `poll`, and which offsets are finished; called by the loop and by the application's thread
"""
