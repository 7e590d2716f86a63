"""Share groups (KIP-932): members, the state of each record, share sessions. Rule: a record is locked for one member at a time.

Written from the KIP, independent of the client.
"""
