"""Sends requests to brokers, and receives their responses. Invariant: while the loop runs, each request gets exactly one outcome, whatever
happens to connections.

The connections of this folder have no sockets: `net.transport` moves their bytes.

Modules; each line imports only from lines below it:
    call            a request, repeated until an outcome ends the call
    network         all connections: when to connect, when to close an unused one; waiting requests
    chooser         the broker for requests that any broker can process, and their wait for a connection
    refusals        brokers that refuse this client, and when waiting requests fail for that reason
    jobs            steps of authentication that may block, and the limit of concurrent steps
    journal         log lines of connections
    troubles        errors that are retried without end: usual causes, warnings, the reason in `status()`
    alarms          the next check of each endpoint: timeouts, backoffs, idle connections
    endpoint        one node, and the state of connecting to it
    connection      one connection: handshake, authentication, requests in flight, throttling
    unsupported     the error for a request that a broker does not support, and the way out
    traffic         counts of connections, requests and bytes, by broker
    flight          a request in flight, and the time for its response
    authentication  a SASL exchange on one connection
    answered        addresses that have answered this process, for advice in errors
    secret_filter   the filter that hides secrets and user names in broker texts
"""
