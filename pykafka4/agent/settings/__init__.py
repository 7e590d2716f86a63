"""Settings of the agent.

Modules; each line imports only from lines below it:
    changes  the settings that differ between two files
    file     reads the TOML file; errors name file, line and key
    kafka    checks the producer's options in the file
    lines    finds the line of a key
    values   the settings as values
    fields   kinds of settings: conversions and checks
"""
