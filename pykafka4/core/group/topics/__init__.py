"""Finds the topics of a subscription, and follows their changes.

Modules; each line imports only from lines below it:
    subscribed    the subscribed topics, and which of their partitions are new
    discovery     finds the existing topics that the patterns of a subscription select
    topic_filter  the patterns of a subscription, and the topics that they select
    patterns      the refusal of patterns that may take `re` too long
"""
