"""The topics of a subscription.

Modules; each line imports only from lines below it:
    subscribed    the subscribed topics, and which of their partitions are new
    discovery     finds the topics of a subscription by pattern among those that exist
    topic_filter  which topics a subscription by pattern means
    patterns      refuses patterns that may take `re` too long
"""
