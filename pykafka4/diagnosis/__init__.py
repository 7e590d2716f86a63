"""Looks at a cluster from outside for the reason why nothing flows. Rule: causes come first, and a cause hides what follows from it.

`diagnose` runs the table of steps and returns findings, each with its evidence and the way out. It changes nothing.

Modules; each line imports only from lines below it:
    steps       the table of steps in order of cause; deadlines
    partitions  partitions without a leader, replicas that are behind, rights on topics
    groups      members, lag and rights of groups
    cluster     brokers, their listeners and versions, the controller, its clock
    access      logins at the bootstrap servers
    addresses   names, ports, TLS handshakes
    case        what earlier steps found out
    values      findings
"""
