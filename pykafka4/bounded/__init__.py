"""Reads the records between two offsets of each partition. Invariant: both offsets are fixed when a read begins; it ends at the second one.

`read`, `read_arrow` and `aio.read` share one `BoundedRead`, which has the offset ranges, the end, the treatment of lost records, and the
progress. `BoundedRead` polls an ordinary consumer session without a group; the claims have the ends (`core.subscription.Claim.until`).

Modules; each line imports only from lines below it:
    read_arrow  `read_arrow`: a stream of Arrow columns
    read        `read`: an iterator over records
    reading     `BoundedRead`: the offset ranges, the session that reads them, and the end
    extent      topics and both ends, or a split
    progress    the progress bar: of rich if it is installed, otherwise a line on stderr
"""
