"""Runs the loop of a client: sockets, threads and time. Invariant: `core` and `wire` open no socket, start no thread and do not read the
monotonic clock.

Modules; each line imports only from lines below it:
    loop         `Loop`, the thread that polls the machines, moves bytes and sleeps
    oidc         `OidcToken`, which fetches tokens from an OpenID Connect issuer over HTTPS
    transports   the choice of the transport
    secure       the transport for TLS
    portable     the transport over `selectors`
    pump/        the compiled transport
    dialling     name lookups and attempts to connect, for each address in turn, also through a proxy
    tls          SSLContexts from the options; explanations of TLS errors
    credentials  user names, passwords and tokens for each authentication
    proxies      handshakes with SOCKS5 and HTTP proxies
    transport    the interface of transports, their events, explanations of socket errors
    kerberos     tickets for GSSAPI, from the Kerberos library
    handoff/     the meeting point of application threads and client threads, with all locks that the loop takes
    logs         the thread that runs logging handlers
    hangs        the search for loops that hang, with their stacks
    system       the names of threads, locks and the clock, which the simulation replaces
    threads      threads, greenlets and locks; the identity of the calling thread
    living       weak references to living objects, for forks and the end of the process
"""
