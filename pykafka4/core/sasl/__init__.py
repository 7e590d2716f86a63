"""Authenticates a client to a broker (SASL). Invariant: no secret is in a `repr`, an error message, a cause or a pickle.

The mechanisms have no sockets, no clock and no randomness: the connection moves their bytes; nonces and times are arguments.

Modules; each line imports only from lines below it:
    plain        PLAIN
    scram        SCRAM-SHA-256 and SCRAM-SHA-512
    oauthbearer  OAUTHBEARER, its token, and the time of the token's renewal
    gssapi       GSSAPI with Kerberos
    mechanism    the interface of mechanisms, the states of an exchange
    saslprep     SASLprep (RFC 4013), only for the error of a refused client: Kafka does not apply SASLprep
    credentials  user name and password
    salted       the keys of SCRAM, kept for each salt
"""
