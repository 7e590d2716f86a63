"""Where threads meet. Rule: every lock of the client is in this folder, and none is held while code of the application runs.

The only other lock belongs to the thread that runs logging handlers (`net.logs`), which is not part of the client's logic. It follows the
same rule.

Modules; each line imports only from lines below it:
    waiting   application threads wait for a change, a result or room: `Signal`, `Promise`, `Gate`
    newest    what the newest of several overlapping calls has returned: `Newest`
    turns     one thread at a time at what a process has once: `turn_of`
    workers   client threads that run calls which may block: `Callbacks`, `Feed`, `Helper`
    wakeup    other threads reach the loop: `Inbox`, `Wakeup`
    latch     what a thread sleeps on
"""
