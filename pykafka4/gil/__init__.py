"""Gives the GIL to threads that wait for I/O, at the cost of threads that compute. Invariant: a thread gives way only where another
thread may safely run.

A thread that computes in Python keeps the GIL until the interpreter takes it away, 5 ms after another thread has asked for it. So the loop
thread, and on Linux a thread that has waited in a `Lock`, raises the process's flag just before it needs the GIL. `send`,
`poll` and the iteration over a consumer's records check the flag, which costs one load. If the flag is raised, these calls release the GIL
at once, except for 100 ms after two releases in a row that only helped other computing threads.

Modules; each line imports only from lines below it:
    asking  `Lock`, and `Turn` for portable loops: both request the GIL at the end of a wait
    flag    `give_way`, `step_aside`, and the compiled flag, if it was built
    _gil    the flag (compiled)
"""
