"""Batches that wait to be sent: one queue per partition, in order.

late             assigns partitions to batches when they are sent
ready            the queues with a batch to send, by leader
partition_queue  the batches of one partition, the number in flight, epoch and sequence numbers
"""
