"""Sockets, threads and time. Rule: no other package uses them; no Kafka decision is made here.

Modules; each line imports only from lines below it:

    loop        the loop thread: polls the machines, moves bytes, sleeps
    transport   the sockets
    handoff/    where application threads and client threads meet, with all locks
    logs        the thread that runs logging handlers
    system      the names of threads, locks and clock, which the simulation replaces
"""
