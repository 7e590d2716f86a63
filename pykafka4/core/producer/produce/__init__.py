"""Builds Produce requests and applies their responses.

responses  the effects of a Produce response on the batches of its request
requests   Produce requests, and the limits of a broker's requests and of a partition's batches in flight
"""
