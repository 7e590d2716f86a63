"""SASL: how a client proves to a broker who it is. Rule: no secret is in a `repr`, a message, a cause or a pickle.

The mechanisms have no sockets, no clock and no randomness: the connection moves their bytes, nonces and times are arguments.

Modules; each line imports only from lines below it:
    plain        PLAIN
    scram        SCRAM-SHA-256 and SCRAM-SHA-512
    oauthbearer  OAUTHBEARER, and the token
    gssapi       GSSAPI: Kerberos
    mechanism    the interface of mechanisms, the states of an exchange, the filter of secrets in a broker's messages
    saslprep     RFC 4013, which Kafka leaves out: what it would change, for the error of a refused client
    credentials  user name and password
    salted       SCRAM's keys, derived once for each salt
"""
