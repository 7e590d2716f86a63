"""The account of the agent: accepted = acknowledged + queued + spooled + discarded, in total and for each topic.

Modules; each line imports only from lines below it:
    balance      the account at a moment: the producer's counts and the ledger's together
    ledger       counts of messages and of discards, as they happen
    reports      reports of intervals
    discard_log  a file with a line for each discarded message
    values       accounts and reports as values
"""
