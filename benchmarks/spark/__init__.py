"""Measures Spark jobs with this client, with Spark's own JVM connector and with confluent-kafka, in turns in one session.

Modules; each line imports only from lines below it:
    __main__     runs all of them and prints the table
    bars         the ratios that the client has to reach
    figures      the figures of each contender
    micro_batch  micro-batches of a thousand rows, from Kafka to Kafka
    reads        jobs that read a million rows
    writes       jobs that write a million rows
    rows         the functions for foreachPartition
    place        the session, the brokers, and the cost of both
"""
