"""The command line: `python -m pykafka4 groups …`.

Rules:
* Standard output has the result, as a table or as JSON; errors and notes go to standard error.
* Nothing is changed without `--execute`.
* Names from a cluster are shown without control characters, which could change a terminal.

Modules; each imports only from those below it:

    main            the options that all commands share, exit codes
    groups          the commands about groups
    offsets         the commands that change offsets
    show, arguments    what results look like, and JSON; texts of the command line as values
    tables          columns that fit a terminal
"""
