"""Inputs of the agent: sockets that clients write to, and never read from.

Modules; each line imports only from lines below it:
    opening     opens all inputs of the settings, and closes them
    streams     UNIX stream and TCP: accepts connections, gives each its turn
    connection  a connection of a client: its bytes, frames, end
    datagrams   the UNIX datagram socket
    unfinished  the memory of messages that have arrived in part, of all connections together
    entrance    passes messages to the Intake, and counts them
    counters    counts of each input, under Dory's names
    reading     which implementation reads datagrams and cuts frames: compiled/ or plain
    compiled/   reads datagrams and cuts frames, in C
    plain       reads datagrams and cuts frames, in Python
    sockets     binds, with modes and owners; replaces a stale socket
"""
