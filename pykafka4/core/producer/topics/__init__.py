"""Keeps the state of topics: parked records, deleted topics, size limits.

parking  records whose topic is unknown, until its partitions are known
missing  topics that no longer exist, and the failure of their records
limits   the largest batch that brokers accept, by topic
"""
