"""Keeps the state that brokers share.

Invariants:
* All random numbers are drawn from the cluster's `random`, in a fixed order, and all later events are on its timeline: so the simulation
  replays a run from its seed.
* A difference between releases of Kafka is a row or an attribute in `releases`; no other code behaves differently by the release's name.

Modules; each line imports only from lines below it:
    cluster   topics, brokers, groups, transactions: all state of a cluster
    metadata  the metadata that a broker returns
    settings  settings of topics, and the topic configs that correspond to them
    releases  differences between releases of Kafka: API versions, behaviour
"""
