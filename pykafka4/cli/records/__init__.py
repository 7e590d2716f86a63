"""Records in and out of the command line. Rule: work is done for lists of records, as calls per record would take longer than Kafka does.

Modules; each line imports only from lines below it:
    clients    consumers and producers with the options of a command
    reading    the lists of records that a command reads: to an end, without end, or as a member of a group
    extents    which records a command reads: its options
    destination  the cluster and the topic that `copy` writes to
    outcomes   the outcome of each input, by its number
    inputs     blocks of input from files and standard input
    sending    sends blocks of input
    forms      records as bytes: by a template, as JSON, as a dump
    template   the template of `--format`
    json_text  records as lines of JSON, and back
    dump       records as a dump for people
    filters    which records of a list are wanted
    places     `--from` and `--until`
    progress   bytes, rate and time left on a terminal
    output     standard output as bytes
"""
