"""Provides the public client, and the loop that the producers and consumers of one client share.

Modules; each line imports only from lines below it:
    attachment  the base of producers, consumers and admin clients: options, machine, runtime
    push        the push of a producer's or consumer's metrics to brokers
    client      the handle `Client`
    watched     the figures of a client for its status page
    futures     the stateless calls of a client, with futures as their results
    serving     `serve_status()`, which opens a status page
    runtime     the loop and its users; events for listeners; metadata for callers
    calls       the stateless calls of a client: their machine, and checks of their arguments
    answers     the answers of a call under way: for threads, futures and tasks
    targets     the brokers to which an application can send a message
    status      `status()` of clients: state and reason, brokers, topics, offline partitions
    handle      the base of all handles: metrics, no pickling, hints for names of other clients
    steps       steps that wait, on threads or in tasks
"""
