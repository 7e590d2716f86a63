"""Bounded reads. Rule: a read returns the records between two offsets of each partition, fixed when it begins, then it ends.

`BoundedRead` is the seam: the parts that read records, columns and splits share its offset ranges, its end, its answer to lost records and
its progress. It polls an ordinary consumer session without a group; the ends are in the claims (`core.subscription.Claim.until`).

Modules; each line imports only from lines below it:
    read_arrow  `read_arrow`: a stream of Arrow columns
    read        `read`: an iterator over records
    reading     `BoundedRead`: the offset ranges, the session that reads them, and the end
    extent      topics and both ends, or a split
    progress    the progress bar: rich if it is installed, otherwise a line on stderr
"""
