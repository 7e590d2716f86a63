"""Transactions: the coordinator of each transactional id, and the markers that it writes (KIP-98, KIP-360, KIP-890).

Rules:
* A transaction that is being committed or aborted is completed, whatever fails meanwhile: its markers are written again until every
  partition has them.
* Nothing here depends on the format of requests. What a partition knows of transactions is in `storage.transactions`.

Modules; each line imports only from lines below it:
    coordinators  transactional ids, their epochs and time-outs
    markers       writes markers to partitions
    transaction   the state of one transactional id
"""
