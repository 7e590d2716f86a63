"""Where threads meet. Rule: every lock of the client is in this folder, and none is held while foreign code runs.

The thread that runs logging handlers has the only other lock (`net.logs`), under the same rule: it is no part of the client's logic.

Modules; each line imports only from lines below it:

    waiting   application threads wait for a change, a result or room: `Signal`, `Promise`, `Gate`
    workers   threads of the client run what may block: `Callbacks`, `Feed`, `Helper`
    wakeup    other threads reach the loop: `Inbox`, `Wakeup`
"""
