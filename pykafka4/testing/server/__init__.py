"""The cluster on 127.0.0.1 (`model_server`, `sockets`), and the faults that a test orders by name (`orders`).

Rules:
* One thread moves the clock and reads the sockets; other code uses the cluster in `ModelServer.do`, which keeps that thread out.
* An exception in that thread closes every connection and is raised in the next call of any method.
"""
