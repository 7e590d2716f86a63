"""Measures the agent: messages per second, CPU time per message, the time that its clients wait, and whether its counts balance.

Modules; each line imports only from lines below it:
    __main__   the runs and their bars: `python -m benchmarks.agent`
    process    the agent in a child process that reports its counts
    senders    client processes, in C (`sender.c`)
"""
