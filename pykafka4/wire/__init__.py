"""Bytes and objects. Rule: pure functions, no I/O and no clock; what a peer sent raises `DecodeError` and nothing else."""
