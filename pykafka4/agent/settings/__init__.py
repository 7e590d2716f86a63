"""Reads and checks the settings of the agent. Invariant: a value that exists is valid; an error names the file, the key, and the
line of the key or of its table, unless the file has neither.

Modules; each line imports only from lines below it:
    changes  the settings that differ between two files
    file     the TOML file: reads it, and reports all errors at once
    kafka    checks of the producer's options in the file
    lines    the line of a key in the file
    values   the settings as values
    fields   kinds of settings: conversions and checks
"""
