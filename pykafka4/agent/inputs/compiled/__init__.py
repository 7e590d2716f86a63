"""Reads datagrams and cuts frames, compiled, on Linux. Invariant: what `inputs.plain` does, result for result.

Modules:
    _reading    `DatagramReader` on recvmmsg, `cut_frames` (compiled)
"""
