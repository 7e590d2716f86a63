"""Serves the model cluster on 127.0.0.1, for clients that use sockets.

Invariants:
* One thread runs the timeline's events and reads the sockets; other code changes the cluster through `ModelServer.do`, under the
  server's lock.
* An exception in that thread closes every connection. Then `do` and `wait_for` until `close`, and the first `close`, raise RuntimeError
  with that exception as the cause.

Modules; each line imports only from lines below it:
    model_server  `ModelServer`: its thread, and its methods for tests
    orders        faults that are ordered by name
    sockets       listeners and connections
"""
