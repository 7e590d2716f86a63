"""How long things take. Rule: a contender's run has a process of its own, and nothing that was not acknowledged or read counts.

`__main__` is the command line, `plan` the cases with their bars, `places` where they run, `measure` runs one contender once, and
`judge` compares. `contender` is the measured process: `acks` and `tasks` are its loops around the clients of `writers` and
`async_writers`; `passing` and `members` are those of consumers. `plot` draws what was measured.
"""
