"""The state that brokers share: topics, metadata (`metadata`), topic settings (`settings`), differences of releases (`releases`).

Rules:
* Everything random is drawn from the cluster's `random`, in a fixed order, and everything that happens later is on its timeline: the
  simulation replays a run from its seed.
* A difference between releases of Kafka is a row or an attribute in `releases`; nothing else looks at the release's name.
"""
