"""Keeps the state of transactional ids, and writes the markers that end transactions (KIP-98, KIP-360, KIP-890).

Invariants:
* Failed writes of a transaction's markers are repeated until the transaction is completed.
* This package does not depend on the format of requests. The transactions in a partition's log are in `storage.transactions`.

Modules; each line imports only from lines below it:
    coordinators  transactional ids, their epochs and timeouts
    markers       writes markers to partitions
    transaction   the state of one transactional id
"""
