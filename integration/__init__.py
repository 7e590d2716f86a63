"""Runs real Kafka clusters for tests. Invariant: the client imports nothing from this package, and the judge nothing from the client.

    cluster.py                  the cluster that tests use; `seam.py` declares the operations of a backend
    local/ docker/ vagrant/     the backends; `backends.py` has their names
    kafka/                      the parts of a broker: release, jars, settings
    spark/                      Spark in addition to the brokers: a standalone cluster, the jars of its own Kafka connector
    security/ access.py         brokers that demand TLS and users; users, rights and certificates of a running cluster
    faults/ workload/ java/ go/ faults of brokers and connections; loads, and clients of other libraries
    agent/                      the agent in a process of its own, its senders, and a reader of its topics
    admin.py judge/             requests and orders to brokers; the records in their logs
    host/ waiting.py            this machine; deadlines

By hand: `python -m integration up`. A contract in pyproject.toml lists the imports that are allowed.
"""
