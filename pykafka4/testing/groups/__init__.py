"""Consumer groups: the classic protocol (`group`), and which broker coordinates each group (`coordinators`).

Invariants:
* `Group` knows no requests and no brokers: it is called with plain values and answers through callables.
* Committed offsets belong to the group and survive a change of its coordinator.
"""
