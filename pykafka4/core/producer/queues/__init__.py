"""Keeps the sealed batches, in order: one queue per partition.

late             the choice of a partition, at the time of sending, for batches without a partition
ready            the queues with a batch to send, by leader
partition_queue  the batches of one partition, the number in flight, epoch and sequence numbers
"""
