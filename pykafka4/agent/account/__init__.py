"""The account of the agent: accepted = acknowledged + queued + spooled + discarded, in total and for each topic.

Modules; each line imports only from lines below it:
    books        Books: all figures of a running agent, for the pages and for its end
    hooks        counts batches that the producer could not deliver, and batches that may be in Kafka twice
    balance      the account at a moment: the producer's counts, the ledger's and the spool's together
    ledger       counts of refused bytes and of discarded messages, as they happen
    reports      reports of intervals
    tallies      the counts of an interval
    discard_log  a file with a line for each discarded message
    log_entries  the lines of that file, as Dory's
    log_file     a file of lines that is rotated, and old ones that are removed
    notices      log lines about discards
    reasons      reasons of messages that the producer could not deliver
    values       accounts and reports as values
"""
