"""Inputs of the agent: sockets that clients write to, and never read from.

Modules; each line imports only from lines below it:
    opening    opens all inputs of the settings
    streams    UNIX stream and TCP connections: frames
    datagrams  the UNIX datagram socket
    sockets    binds, with modes and owners; replaces a stale socket
"""
