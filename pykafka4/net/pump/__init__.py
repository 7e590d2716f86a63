"""Moves bytes without the GIL, on Linux. Invariant: this transport and `net.portable` report the same frames; the pump requests the GIL
less often.

Modules; each line imports only from lines below it:
    transport   `PumpTransport`, which dials in Python and returns the events of the pump
    _pump       `Pump`, which writes, waits, reads and cuts frames in one stretch without the GIL (compiled)
    _frames     frames and their memory (part of `_pump`)
    _waker      wake-ups from any thread, and from signal handlers (part of `_pump`)
"""
