"""Turns fetched data into records on the thread that polls.

Modules; each line imports only from lines below it:
    reader         records for `poll`; seeks, pauses and revocations, which drop fetched data or have it fetched again
    column_forms   the forms of `poll_arrow`: columns
    forms          the interface between the reader and its forms; lists, iterators and raw batches
    deserializing  deserializers, and the reactions to records that they refuse
    arrivals       the loop's side of the reader: chunks, markers and errors on their way to `poll`
    cursors        the positions after returned and after finished records
    fetch_buffer   chunks and markers that wait for `poll`
    delivered      offsets of records that the application has and no transaction has committed
    notices        errors of the consumer, not of one partition
    steps          the mark of the reader's steps, which Ctrl-C may leave in the middle
"""
