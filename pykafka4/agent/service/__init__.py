"""Runs the agent's process: command line, start, signals, reload, end.

Modules; each line imports only from lines below it:
    main        the command line: `pykafka4 agent`
    agent       Agent: start, signals, failures of parts, the end
    parts       Parts: all parts, opened and closed in order
    on_loop     runs functions of other threads on the agent's loop
    ending      delivers waiting messages when the agent ends, and logs the last report
    reload      reads the settings again, and logs the changes
    check       checks of settings against this machine
    privileges  the change from root to another user
    logs        log lines on standard error or in the journal
    notify      the process's state for systemd
    unit        the unit file for systemd
    codes       exit codes
"""
