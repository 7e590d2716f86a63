"""The process of the agent.

Modules; each line imports only from lines below it:
    main        the command line: `pykafka4 agent`
    agent       Agent: start, signals, a part that fails, the end
    parts       opens all parts in order, and closes them
    on_loop     calls functions on the agent's loop, from other threads
    ending      delivers what waits at the end, and reports the rest
    reload      reads the settings again
    check       checks settings against this machine, without opening anything
    privileges  changes the process from root to another user
    logs        lines to standard error or the journal
    notify      tells systemd the state
    unit        the unit file for systemd
    codes       exit codes
"""
