"""A real Kafka for tests. Rule: the client imports nothing of this, and only `chaos`, a load made with it, imports more of it than `wire`.

What the tests believe about lost, duplicated and reordered records is read by this package, so it stands on `pykafka4.wire` alone.
"""
