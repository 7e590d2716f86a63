"""A real Kafka for tests. Rule: the client imports nothing of this, and the judge imports nothing of the client.

    cluster.py                  what tests use; `seam.py` is what a backend has to give
    local/ docker/ vagrant/     the backends; `backends.py` has their names
    kafka/                      what a broker is made of: release, jars, settings
    spark/                      Spark beside the brokers: a standalone cluster, the jars of its own Kafka connector
    security/ access.py         brokers that demand TLS and users; who may do what
    faults/ workload/ java/ go/ what tests do to brokers, and with them
    admin.py judge/             questions and orders to brokers; what their logs hold
    host/ waiting.py            this machine; deadlines

By hand: `python -m integration up`. Which of them may import which is a contract in pyproject.toml.
"""
