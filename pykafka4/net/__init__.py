"""Sockets, threads and time. Rule: the only package that touches them; no Kafka decision is made here.

Each line imports only from lines below it:

    loop        the loop's thread: polls the machines, moves bytes, sleeps
    transport   the sockets
    handoff/    where the threads of the application and of the client meet, with all locks
    logs        the thread that runs logging handlers
    system      the names of threads, locks and clock, which the simulation replaces
"""
