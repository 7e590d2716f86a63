"""Reads and writes records for commands. Modules pass records to each other in lists, because a call for each record takes time.

Modules; each line imports only from lines below it:
    reading      lists of records for a command: to an end, without end, or as a member of a group
    clients      consumers and producers with the options of a command
    extents      the options that choose the records for a command
    places       the values of `--from` and `--until`
    destination  the options for the cluster and the topic that `copy` writes to
    sending      sends blocks of input
    outcomes     the outcome of each item of input, by its number
    inputs       blocks of input from files and standard input
    forms        records as bytes: by a template, as JSON, as a dump
    json_text    records as lines of JSON, and back
    dump         records as a dump for people
    filters      filters of records, by keys and headers
    template     the template of `--format`
    progress     bytes, rate and time left on a terminal
    output       standard output as bytes
"""
