"""Chooses the producer ids and epochs in which queues number their batches.

numbering  the producer id and epoch of each queue, and the next epoch of a queue that has lost its sequence
identity   the producer id without transactions, from InitProducerId
"""
