"""Checks a cluster from outside, and looks for the reason why no records flow. Invariant: causes come before their effects.

`diagnose` runs the steps of a table, and yields findings, with the evidence and the way out if there are any. The diagnosis
changes nothing in the cluster, but brokers before Kafka 0.11 may create a missing topic that the caller names.

Modules; each line imports only from lines below it:
    steps       the table of steps in order of cause; deadlines
    groups      members, lag and rights of groups
    partitions  partitions without a leader, lagging replicas, rights on topics
    cluster     brokers, their listeners and versions, the controller, its clock
    access      names, ports, TLS and logins of the bootstrap servers
    case        the options, and the results of earlier steps
    addresses   the checks of one address: name, port, TLS handshake
    values      findings
"""
