"""The machine of a share consumer (KIP-932). Rule: brokers keep the state of every record; this side only holds locks that end.

Modules; each line imports only from lines below it:
    machine        one share consumer: membership, sources, what waits for `poll`
    member         membership: ShareGroupHeartbeat
    sources        which broker has which partitions; who fetches, and when
    source         the share session with one broker: one request at a time fetches or acknowledges
    requests       the requests, and what their errors mean
    mailbox        what the loop and the thread that polls exchange
    values         leases, acquired records, acknowledgements and what becomes of them
"""
