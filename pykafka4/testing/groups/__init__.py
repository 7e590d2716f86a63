"""Consumer groups: the classic protocol and offsets (`group`), the consumer protocol (`modern`, `assigning`), and which broker
coordinates each group (`coordinators`).

Rules:
* `Group` does not depend on requests or brokers: it takes plain values and responds through callables.
* Committed offsets belong to the group and survive a change of its coordinator.
"""
