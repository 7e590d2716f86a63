"""The state that brokers share.

Rules:
* Everything random is drawn from the cluster's `random`, in a fixed order, and everything that happens later is on its timeline: the
  simulation replays a run from its seed.
* A difference between releases of Kafka is a row or an attribute in `releases`; nothing else looks at the release's name.

Modules; each line imports only from lines below it:
    cluster   topics, brokers, groups, transactions: all state of a cluster
    metadata  the metadata that a broker returns
    settings  settings of topics, and the corresponding topic configs
    releases  differences between releases of Kafka: API versions, behaviour
"""
