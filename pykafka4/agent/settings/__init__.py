"""Settings of the agent.

Modules; each line imports only from lines below it:
    file    reads the TOML file; errors name file, line and key
    values  the settings as values
"""
