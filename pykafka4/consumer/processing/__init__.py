"""Runs the handlers of `Consumer.process` and the streams of `Consumer.streams`. Invariant: no commit passes an unfinished record.

`run_loop` is the loop of both: it polls, commits and pauses. `work` has the handlers, in order per key, on an executor or own threads;
`aio.processing` awaits them in tasks. `dispatcher` divides the partitions among threads of the application.
"""
