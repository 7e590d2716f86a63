"""Runs the loop's side of a share consumer (KIP-932): membership, sessions, acknowledgements. Brokers keep the state of each record;
the consumer only holds locks, and every lock expires.

Modules; each line imports only from lines below it:
    machine        one share consumer: its member, its sources, its mailbox
    member         the member of the share group: ShareGroupHeartbeat
    sources        the source of each partition
    source         the share session with one broker: one request at a time fetches or acknowledges
    requests       builders of ShareFetch and ShareAcknowledge, errors for brokers without share groups
    mailbox        acquired records and errors, on their way from the loop to the thread that polls
    values         leases, acquired records, acknowledgements, reports of their outcomes
"""
