"""Sends requests to brokers, and receives their responses. Invariant: while the loop runs, each request gets exactly one outcome, whatever
happens to connections.

The connections of this folder have no sockets: `net.transport` moves their bytes.

Modules; each line imports only from lines below it:
    call            a request that is repeated, after a backoff or at another broker, until an outcome ends the call
    network         all connections: when to connect, when to close an unused one, and the requests that wait
    chooser         requests that any broker can process: the choice of the broker, and the wait for a connection
    refusals        brokers that refuse this client, and the time at which waiting requests fail for that reason
    jobs            steps of authentication that may block, and the limit of concurrent steps
    journal         log lines of connections
    troubles        errors that are retried without end: their usual causes, warnings, and the reason in `status()`
    alarms          the time of the next check of each endpoint: timeouts, backoffs, idle connections
    endpoint        one node (a broker, a lane to a broker, or a bootstrap address), and the state of connecting to it
    connection      one connection: handshake, API versions, requests in flight, responses in order, throttling; when to authenticate again
    unsupported     the error for a request that a broker does not support, and the way out
    traffic         counts of connections, requests and bytes, by broker
    flight          a request in flight, and the time for its response
    authentication  a SASL exchange on one connection
    answered        addresses that have answered this process; advice in errors depends on them
    secret_filter   the filter of broker texts: it hides secrets and user names
"""
