"""Producer ids, epochs and sequence numbers.

numbering  gives each queue a producer id and epoch, and starts a new epoch where a sequence is lost
identity   the producer id without transactions, from InitProducerId
"""
