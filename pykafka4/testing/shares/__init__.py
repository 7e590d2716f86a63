"""Keeps share groups (KIP-932): members, the state of each record, share sessions. Invariant: at most one member at a time holds the
lock on a record.

The code follows the KIP, independently of the client.

Modules; each line imports only from lines below it:
    shares   all share groups and share sessions of a cluster
    group    members and assignments of one share group
    records  the state of each record of a partition: available, acquired, acknowledged, archived
"""
