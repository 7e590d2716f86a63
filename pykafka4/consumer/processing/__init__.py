"""Runs the handlers of `Consumer.process` and the streams of `Consumer.streams`. Rule: no commit passes an unfinished record.

`Consumer.process` runs here: the thread that called it polls and commits (`run`), and handlers run on an executor, in order per key
(`work`). What of a partition is finished, `progress` knows. Records that failed for good go to another topic (`dead_letters`).
`Consumer.streams` divides the partitions among threads of the application (`allotment`); one thread polls and commits for
them (`dispatcher`). Both pause partitions of which too much is in hand (`pauses`).
"""
