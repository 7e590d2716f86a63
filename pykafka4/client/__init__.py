"""The public client, and the loop that producers and consumers share through it.

Modules; each line imports only from lines below it:
    attachment  the base of producers, consumers and admin clients: checked options, the runtime, own or shared, their machine on its loop
    watched     the figures of a client for its status page
    push        pushes the metrics of a producer or consumer to brokers that want them
    client      the handle `Client`
    futures     the stateless calls of a client, with futures as their results
    serving     `serve_status()`: opens a status page, which the runtime closes
    runtime     owns the loop and its users; events for listeners; metadata for callers
    calls       the stateless calls of a client: checked arguments, the machine
    answers     the answers of a call under way: for threads, futures and tasks
    targets     brokers to send a message to
    status      `status()` of clients: state and reason, brokers, topics, offline partitions
    handle      the common base of all handles: no pickling, hints for names of other clients
    steps       runs steps that wait, on threads or in tasks
"""
