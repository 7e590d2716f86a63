"""Reads the records between two offsets of each partition. Invariant: both offsets are fixed when a read begins, and the read stops at the
second.

`read`, `read_arrow` and `aio.read` use the same `BoundedRead`, with an ordinary consumer session without a group.
`core.subscription.Claim.until` is the end of a partition's range.

Modules; each line imports only from lines below it:
    read_arrow  `read_arrow`: a stream of Arrow columns
    read        `read`: an iterator over records
    reading     `BoundedRead`: the offset ranges, the session that reads them, and the end
    extent      the arguments of a read: topics and both ends, or a split
    progress    the progress on stderr: rich's progress bar, or lines of text
"""
