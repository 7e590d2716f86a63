"""Moving bytes without the GIL, on Linux. Rule: what `net.portable` does, event for event; only the number of GIL requests differs.

Modules; each line imports only from lines below it:
    transport   `PumpTransport`: dials in Python, and reports what the pump has moved
    _pump       `Pump`: write queues, wait, read, cut frames, in one stretch without the GIL (compiled)
    _frames     frames and their memory (part of `_pump`)
    _waker      wake-ups from any thread, and from signal handlers (part of `_pump`)
"""
