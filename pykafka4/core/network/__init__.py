"""Requests to brokers and their responses. Rule: each request gets exactly one outcome, whatever happens to connections.

Connections here have no sockets: `net.transport` moves their bytes.

Modules; each line imports only from lines below it:

    call             a request that is repeated, after a back-off or with another broker, until there is an outcome
    network          all connections of a client: when to connect, and the requests that wait for a connection
    chooser          the broker for a request that any broker can process
    refusals         which brokers refuse this client, and when that is told
    jobs             steps of authentication that may block, and how many are under way
    journal          what is logged of connections
    endpoint         one node, that is a broker or a lane to it, and the state of connecting to it
    connection       one connection: API versions, requests in flight, responses in the order of requests
    authentication   a SASL exchange on one connection
"""
