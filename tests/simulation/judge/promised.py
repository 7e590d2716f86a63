"""What is promised. Each promise has a name, and a mutant of the client that breaks it."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CONSUMER_PROMISES",
    "PROCESSING_PROMISES",
    "PRODUCER_PROMISES",
    "PROMISES",
    "SHARE_PROMISES",
    "TRANSACTION_PROMISES",
    "Broken",
]

PRODUCER_PROMISES: Final = {
    "nothing acked is lost": "an acknowledged record lies at the partition and offset that were told",
    "records are what was sent": "key, value, headers, timestamp and requested partition are those of the `send`",
    "no duplicates": "a record lies once in all partitions of its topic; without idempotence twice only after an unknown outcome",
    "order per partition": "records of one thread lie in the order in which they were sent",
    "no foreign records": "nothing lies in a log that nobody sent to it",
    "hooks are told": "hooks are told of each record that was accepted, and of its end",
    "what was dropped is told": "a record without room or over its limit fails as such, is in no log, and counts",
    "one completion": "a callback runs once, after the outcome",
    "a purge fails what waits": "`purge` leaves nothing that waits, with in_flight nothing at all, and says how many records it failed",
    "a bad record fails alone": "of a batch with records that a broker names as bad only these fail, with the broker's reason",
    "a number chooses its partition": "with partition_key a number lies in its partition, or, while that is offline, in another one",
    "one leader at a time": "batches of a partition travel to two brokers at once only with idempotence, to the leader of a newer epoch",
    "one batch per request": "a request has at most one batch of a partition: brokers keep one of several, and acknowledge it for all",
    "not written is not in the log": "a record that failed as not written is not in the log and does not come later",
    "failures are classified": "a failure is a DeliveryFailed with a known code",
    "failed records come back": "a failure carries the record",
    "no needless failure": "a failure is explained by an injected fault that lasted",
    "offsets are told": "an acknowledgement without an offset was announced by the broker, or acks=0",
    "progress": "every record has its outcome once everything healed",
    "partitions go on": "a partition that no fault touches is acknowledged without a gap, whatever happens to others",
    "waits end in time": "a call ends within its timeout",
    "memory is bounded": "no more than buffer_memory is in use",
    "the ledger balances": "accepted = acknowledged + queued + in flight + failed",
    "the producer goes on": "no fault ends a producer for good",
    "a block tells what failed": "a `with` block raises if a record failed whose failure nobody looked at, and only if one failed",
    "partitions are told as they are": "`partitions_for` gives all partitions of a topic",
    "no hot loop": "no turn without a change or a pause, and requests are paced",
    "no internal errors": "a call raises nothing but the errors that it documents",
}
CONSUMER_PROMISES: Final = {
    "records of owned partitions only": "what is handed out is of partitions that the listener was told of",
    "positions never skip": "the next record handed out is the next in the log",
    "never past the high watermark": "nothing is handed out that the in-sync replicas do not all have",
    "what was cut off is told or read again": "where an election took what was read, reading goes back there, or poll raises LogTruncated",
    "no offset is chosen unasked": "with auto_offset_reset=none reading begins and goes on only where the application said, or the group",
    "records are what was written": "key, value, headers and timestamp are those in the log",
    "nothing unfinished is committed": "a committed offset is not behind a record that the application has not finished",
    "commits never go back": "a committed offset is not below an earlier one",
    "one owner per generation": "no partition is assigned twice",
    "one owner at a time": "what the coordinator of a consumer protocol group gives to a member is not read by another one in the group",
    "subscriptions select topics": "a member has partitions of topics that its pattern selects, and of no topic that is gone",
    "new partitions are read from their beginning": "what comes after the subscription, also with auto_offset_reset=latest",
    "a lease is kept and ends": "a member stays while its lease lasts, and leaves when its application does not poll in time",
    "a commit of a part is that part": "a commit of one topic, or of one partition with a text, stores that and nothing else",
    "paused partitions are quiet": "nothing is handed out of a paused partition",
    "a commit that returned is stored": "what `commit` returned for is what the group has stored",
    "listeners are told the truth": "assigned and revoked alternate",
    "progress": "everything is read and committed once everything healed",
    "partitions go on": "a partition that no fault touches is acknowledged, or read, without a gap, whatever happens to others",
    "every partition has an owner": "some time after members came or went every partition is read by one of them",
    "no needless failure": "a failure is explained by an injected fault that lasted",
    "a crash is told": "after an exception inside the client every call ends, and says so",
    "the others of a client go on": "a consumer's crash ends no other consumer of its client",
    "callbacks of commits run once": "what was given to commit_async is called once, also in a crash",
    "no hot loop": "no turn without a change or a pause, and requests are paced",
    "waits end in time": "a call ends within its timeout",
    "no internal errors": "a call raises nothing but the errors that it documents",
}
TRANSACTION_PROMISES: Final = {
    "a committed transaction is read whole": "a reader of committed records gets all records of a transaction whose commit returned",
    "nothing of an aborted transaction is read": "none of those that were aborted, or that a fenced producer left open",
    "each committed record is read once, in order": "in the order of the log and of the sends, and no record twice",
    "transactions end and are read": "when everything heals, each transaction gets an outcome, and readers reach the end of the log",
}
SHARE_PROMISES: Final = {
    "an accepted record does not come again": "a record whose acceptance was told is given to no member that can know that it lost it",
    "a shared record comes again only so often": "each delivery has a higher count, and none more than the group's limit",
    "a record is given while it is locked": "`poll` returns no record whose lock has ended, by what a client can know",
    "a record that waits for a poll stays locked": "a slow member that polls often enough gets what is locked for it, when nothing fails",
    "a shared record is what was sent": "its value is that of the log at its offset",
    "an acceptance that was told is stored": "`commit` says only of records that are stored that they are",
    "every shared record becomes final": "when everything heals, each record is accepted, rejected or archived",
    "share consumers close in time": "`close`, and `unsubscribe`, takes its timeout and half a second at most",
}
PROCESSING_PROMISES: Final = {
    "a commit passes no unfinished record": "a committed offset has only finished records before it",
    "one record of a key or partition at a time": "what has an order is handled one after the other, and a partition is on one stream",
    "records are handled in order": "with an order by partition, the next record is that of the next offset, until the next assignment",
    "committed offsets do not go back": "no offset is stored that is lower than the one before",
    "records in hand are bounded": "not many more records than max_in_hand are in hand, however many partitions there are",
    "runs end when they are asked to": "`process`, streams and `close` end within their times",
    "every record is finished and committed": "when everything heals, every record is finished, or a dead letter, and committed",
}
PROMISES: Final = {**CONSUMER_PROMISES, **PRODUCER_PROMISES, **TRANSACTION_PROMISES, **SHARE_PROMISES, **PROCESSING_PROMISES}


class Broken(AssertionError):
    """A promise was broken. `promise` is its name; the message says how, and which seed shows it."""

    def __init__(self, promise: str, detail: str) -> None:
        assert promise in PROMISES, promise
        super().__init__(f"{promise}: {detail}")
        self.promise, self.detail = promise, detail
