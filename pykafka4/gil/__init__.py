"""How threads that wait for I/O get the GIL from threads that compute. Rule: a thread gives way only where other code may run anyway.

A thread that computes in Python keeps the GIL until the interpreter takes it away, 5 ms after another thread has asked for it. So the
loop's thread, and every thread that waits for a result of the client, raises a flag just before it needs the GIL. `send`, `poll` and the
loop over a consumer's records look at that flag, which costs one load, and release the GIL at once if it is raised.

There is one flag in a process, as there is one GIL.

Modules; each line imports only from lines below it:
    asking  `Lock`, and the wait of a portable loop: both end with a request for the GIL
    flag    `give_way`, `step_aside`; chooses the compiled flag, if it was built
    _gil    the flag (compiled)
"""
