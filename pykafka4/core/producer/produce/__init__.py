"""Builds Produce requests and applies their responses.

responses  the effects of a Produce response on the batches of its request
requests   Produce requests, and the limits of requests in flight to a broker and of batches in flight from a partition
"""
