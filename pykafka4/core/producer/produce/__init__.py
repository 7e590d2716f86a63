"""Produce requests and their responses.

responses  applies the response of a Produce request to its batches
requests   builds Produce requests; how many are in flight to a broker, and how many batches of a partition
"""
