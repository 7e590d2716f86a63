"""Requests to brokers and their responses. Rule: each request gets exactly one outcome, whatever happens to connections.

Connections here have no sockets: `net.transport` moves their bytes.

Modules; each line imports only from lines below it:
    call            a request that is repeated, after a back-off or with another broker, until there is an outcome
    network         all connections: when to connect, when to close an unused one, and the requests that wait
    chooser         requests that any broker can process: those that wait for a connection, and the broker for each
    refusals        brokers that refuse this client, and when waiting requests fail for it
    jobs            steps of authentication that may block, and how many are under way
    journal         log lines of connections
    troubles        errors that are retried without end: their usual causes, warnings, and the reason in `status()`
    alarms          when to look at each endpoint again: time-outs, back-offs, idle connections
    endpoint        one node, that is a broker or a lane to it, and the state of connecting to it
    connection      one connection: handshake, API versions, requests in flight, responses in order; notes since when it is idle
    unsupported     why a broker cannot take a request, and the way out
    traffic         counts of connections, requests and bytes, by broker
    flight          a request in flight, and how long its response may take
    authentication  a SASL exchange on one connection
    answered        addresses that have answered this process; advice in errors depends on them
    secret_filter   the filter of broker texts: secrets and user names are hidden
"""
