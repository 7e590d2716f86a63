"""Reads the inputs of the agent: sockets to which clients write. The agent never responds.

Modules; each line imports only from lines below it:
    opening     opens and closes all inputs
    streams     UNIX stream and TCP: listeners, and connections that are read in turns
    connection  reads the frames of a client's connection
    datagrams   the UNIX datagram socket
    unfinished  the memory for unfinished messages, shared by all connections
    entrance    passes messages to the Intake, and counts them
    counters    counts of each input, and their names
    reading     the choice between compiled/ and plain
    compiled/   the compiled reader of datagrams and frames
    plain       the same reader in Python
    sockets     binds sockets, and removes stale socket files
"""
