"""Counts the agent's messages. Invariant, in total and for each topic: accepted = acknowledged + queued + spooled + discarded.

Modules; each line imports only from lines below it:
    books        Books: all figures of a running agent
    hooks        a hook of the producer, which counts messages that failed or may be in Kafka twice
    balance      the account at one moment, from the producer, the ledger and the spool
    ledger       counts of refused bytes and discarded messages
    reports      reports of intervals
    tallies      the counts of an interval
    discard_log  a file with lines about discarded messages
    log_entries  the lines of the discard log, in Dory's format
    log_file     a file of lines, its rotation and archives
    notices      log lines about discards
    reasons      reasons for discards, by error codes of failed batches
    values       accounts and reports as values
"""
