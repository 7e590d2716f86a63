"""What the client knows of the cluster, and what it asks for next. Invariant: an older answer never replaces newer knowledge.

Modules; each line imports only from lines below it:

    changes          what happened to topics since one machine last looked
    recovery         partitions that failed: offline until their leader can be reached again
    cluster          brokers, controller and topics, refreshed for everybody who uses a topic
    topic            one topic: its id, its leaders and their epochs
    metadata_queue   which topics the next Metadata request names
"""
