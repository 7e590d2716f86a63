"""Spark beside the clusters: what tests and benchmarks need of it beyond pyspark.

Modules:
    cluster  a standalone Spark cluster of this machine: a master, workers, their executors
    jars     the jars of Spark's own Kafka connector, to compare with
"""
