"""Sends requests to brokers and passes their answers on. Invariant: each request is answered exactly once, whatever happens to connections.

Connections here have no sockets: `net.transport` moves their bytes.

Modules; each line imports only from lines below it:

    network      all connections of a client: when to connect, and what each request waits for
    chooser      which broker a request goes to that any broker can answer
    endpoint     one node, that is a broker or one of several connections to it, and what is known about reaching it
    connection   one connection: API versions, requests in flight, replies in the order of requests
    question     a request that is sent to another broker as well when the first one does not answer
"""
