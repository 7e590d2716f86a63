"""Serves the model cluster on 127.0.0.1, for clients that use sockets.

Invariants:
* One thread moves the clock and reads the sockets; other code uses the cluster in `ModelServer.do`, which keeps that thread out.
* An exception in that thread closes every connection, and the next call of any method raises it.

Modules; each line imports only from lines below it:
    model_server  `ModelServer`: its thread, and its methods for tests
    orders        faults that are ordered by name
    sockets       listeners and connections
"""
