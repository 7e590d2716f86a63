"""Reads and checks the settings of the agent. Invariant: an error in a setting names the file, the setting, and the line of its key
or of a table around it, unless the file has neither.

Modules; each line imports only from lines below it:
    changes  the settings that differ between two files
    file     reads the TOML file, and reports its errors together
    kafka    checks of the producer's options in the file
    lines    the line of a key in the file
    values   the settings as values
    fields   kinds of settings: conversions and checks
"""
