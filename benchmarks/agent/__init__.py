"""What the agent takes: messages per second, CPU per message, how long its clients wait, whether the account balances.

Modules; each line imports only from lines below it:
    __main__   the runs and their bars: `python -m benchmarks.agent`
    process    the agent, in a process that tells its counts
    senders    client processes, in C (`sender.c`)
"""
