"""Chooses the producer ids and epochs in which queues number their batches.

numbering  the producer id and epoch of each queue, and its next epoch where a sequence is lost
identity   the producer id without transactions, from InitProducerId
"""
