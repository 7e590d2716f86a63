"""Measures how long operations take.

Invariant: each run of a contender has its own process, and an operation counts only when it was acknowledged or read.

Modules; each line imports only from lines below it:
    __main__       the rounds and their tables: `python -m benchmarks.latency`
    measure        one run of one contender
    plan           the cases with their contenders and bars
    contender      the measured process
    acks           loops around the producers of `writers`
    tasks          loops around the producers of `async_writers`
    passing        a writer and a reader, from end to end
    members        a group member next to computing threads
    async_writers  producers for asyncio
    writers        producers whose calls block
    places         the brokers of a run
    heartbeats     the lateness of heartbeats, at the model broker
    judge          percentiles, ratios and verdicts
    load           the work of a contender, its samples and its window
    plot           pictures of the results: `python -m benchmarks.latency.plot`
"""
