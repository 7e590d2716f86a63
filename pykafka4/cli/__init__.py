"""Implements the commands of `pykafka4` (also `python -m pykafka4`). Invariants:

* The result goes to standard output, and notes go to standard error. Errors go to standard error, or are part of the result, or both.
  With `--json`, an error of the cluster that ends a command is also an object on standard output.
* A command that deletes something other than settings in a cluster, or sets the offsets of a group, needs `--execute`; exceptions:
  `bench` deletes its own topic, and `cluster down --delete` the data of the local cluster; `consume` and `copy` commit for `--group`.
* Tables and messages show no control characters of names from a cluster, because a terminal may obey them. Keys, values and headers are
  data: `consume` writes their bytes unchanged, except with `--json` and `--hex`.

Modules; each line imports only from lines below it:
    main        the table of commands; exit codes
    bench       measures the user's own cluster
    produce     sends lines, files or JSON to a topic
    consume     writes records of topics to standard output
    copy        copies topics to another cluster or topic
    records/    reading and writing of records: `--format` and other forms, filters, inputs, outcomes
    groups      the commands that show groups (`show` has their tables)
    acls        the commands about access control lists
    users       the commands about users who log in with SCRAM
    quotas      the commands about client quotas
    tokens      the commands about delegation tokens
    cluster     the commands about the cluster: brokers, quorum, features, log directories
    topics      the commands about topics
    settings    the commands about settings
    local       a Kafka on this machine, for development
    kafka       Java and the jars of a broker
    transactions  the commands about transactions and producers
    replicas    the commands that move replicas and elect leaders
    partitions  the partitions that a command names
    offsets     the commands that change groups and offsets
    live        the member that rewinds a running group
    status      shows the findings of a diagnosis
    watch       the status page of a running client, in the terminal
    arguments   converts texts of the command line to values
    frame       imports commands when they are run; options of all commands
    completion  completes commands and names in shells
    invocation  the cluster of a command: options, variables, profiles; clients for commands; exit codes
    profiles    names for clusters, in the user's file
    streams     standard streams that are closed, full, or without a reader
    listing     the options --json and --execute, and lists
    show        the columns and JSON of groups, topics and other results
    tables      columns that fit a terminal
"""
