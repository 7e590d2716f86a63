"""Administration: questions about many groups or partitions, each sent to the brokers that can answer it.

Rule: every key of a question gets its own outcome, so an error of one never hides the answers about the others.

Modules; each line imports only from lines below it:
    calls    calls about many groups: sequences of questions
    machine  the machine of an `AdminClient`: runs questions until each key has its outcome
    groups   questions about groups: their requests, and the meaning of responses
    offsets  questions about committed offsets, and about ends of logs
    places   the broker for each key: coordinators, leaders, every broker
    work     one question under way: retries, the deadline
    values   answers: groups, members, offsets
"""
