"""Runs Spark next to the clusters: the parts that tests and benchmarks need in addition to pyspark.

Modules:
    cluster  a standalone Spark cluster of this machine: a master, workers, their executors
    jars     the jars of Spark's own Kafka connector, to compare with
"""
