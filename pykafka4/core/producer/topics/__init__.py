"""State of topics: records that wait for metadata, deleted topics, size limits.

parking  records whose topic is unknown wait here until its partitions are known
missing  fails the records of topics that no longer exist
limits   the largest batch that brokers accept, by topic
"""
