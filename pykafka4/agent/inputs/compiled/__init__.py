"""Reads datagrams and cuts frames in compiled code, on Linux. Invariant: for any bytes, the results equal the results of `inputs.plain`.

Modules:
    _reading    `DatagramReader`, which uses recvmmsg, and `cut_frames` (compiled)
"""
