"""Carries out the transactions of a `transactional_id`.

records   the records of the open transaction, in queues and in flight
machine   the state of the transaction, and its requests to the coordinator
offsets   consumer offsets that become part of the transaction
requests  requests to coordinators, and the meanings of their error codes
"""
