"""The command line: `python -m pykafka4 groups …`.

Rules:
* Standard output has the result, as a table or as JSON; errors and notes go to standard error.
* Nothing is changed without `--execute`.
* Names from a cluster are shown without control characters, which could change a terminal.

Modules; each line imports only from lines below it:
    main        the frame: parses the command line, reports errors
    groups      the commands that show groups
    cluster     the commands about the cluster: brokers, quorum, replicas, leaders
    offsets     the commands that change groups and offsets
    watch       the status page of a running client, in the terminal
    invocation  options of all commands, exit codes
    show        results as tables and as JSON
    arguments   texts of the command line as values
    tables      columns that fit a terminal
"""
