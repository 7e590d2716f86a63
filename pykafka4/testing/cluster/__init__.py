"""Keeps the state that brokers share.

Invariants:
* All random numbers are drawn from the cluster's `random`, in a fixed order, and all scheduled events are on its timeline, so that the
  simulation can repeat a run from its seed.
* A difference between releases of Kafka is a row or an attribute in `releases`; no other module of the model compares releases.

Modules; each line imports only from lines below it:
    cluster   topics, brokers, groups, transactions: all state of a cluster
    metadata  the metadata that a broker returns
    settings  settings of topics, and the topic configs that correspond to them
    releases  differences between releases of Kafka: API versions, behaviour
"""
