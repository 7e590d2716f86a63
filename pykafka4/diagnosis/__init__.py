"""Looks at a cluster from outside, and finds the reason why no records flow. Invariant: causes come first, and a cause hides its effects.

`diagnose` runs the table of steps, and yields findings, each with its evidence and the way out. It changes nothing in the cluster.

Modules; each line imports only from lines below it:
    steps       the table of steps in order of cause; deadlines
    partitions  partitions without a leader, replicas that are behind, rights on topics
    groups      members, lag and rights of groups
    cluster     brokers, their listeners and versions, the controller, its clock
    access      logins at the bootstrap servers
    addresses   names, ports, TLS handshakes
    case        the options, and the results of earlier steps
    values      findings
"""
