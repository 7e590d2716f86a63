"""Produce requests and their responses.

responses  applies the response of a Produce request to its batches
requests   builds Produce requests and counts those in flight
"""
