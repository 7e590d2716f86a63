"""Spark beside the clusters: what tests and benchmarks need of it beyond pyspark.

Modules:
    jars  the jars of Spark's own Kafka connector, to compare with
"""
