"""Runs the calls of `AdminClient`, and the stateless calls of clients, as questions about many keys.

A question is one kind of request about many keys: groups, partitions, brokers, topics. Its requests go to the brokers that can answer them.
Invariant: each key gets its own outcome.

Modules; each line imports only from lines below it:
    stateless       calls of a client: offsets, fetches, commits, single messages
    sizes           sizes of logs
    locating        lookups for bounded reads: partitions, offsets, sizes
    calls           calls about many groups, each with one or more questions
    call            one call: its questions, and the outcome of each key
    machine         the machine that runs questions until each key has its outcome
    fetches         fetches of records by offset
    topic_queries   lists and descriptions of topics; checks that brokers know of changes
    topics          changes of topics
    configs         settings
    shares          start offsets of share groups
    records         deletion of records
    replicas        replicas and leaders: log directories, moves, elections
    acls            access control lists
    users           users and their credentials
    quotas          client quotas
    tokens          delegation tokens
    cluster         the cluster: brokers, the quorum, features
    producers       producers of partitions, and transactions
    groups          lists, descriptions and deletion of groups
    committed       committed offsets
    offsets         offsets of logs, and numbers of partitions
    requests        one message of the application to one broker; the choice of a broker by its number, and of the controller
    broker_choices  the broker for each key: coordinators, leaders, every broker
    question_run    one question under way: retries, the deadline
    values          outcomes: groups, members, offsets, records
"""
