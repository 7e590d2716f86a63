"""Reads fetched data on the thread that polls. Invariant: no record is lost, and no record counts as finished that is not.

Modules; each line imports only from lines below it:
    reader         returns records from `poll`; seek, pause and revocation: drops fetched data, and has it fetched again
    column_forms   the columns of `poll_arrow`
    forms          the interface between reader and forms; lists of records
    deserializing  deserializers, and the reactions to records that they refuse
    arrivals       chunks, markers and errors that the loop has put
    cursors        the places behind returned, and behind finished records
    fetch_buffer   a container: chunks and markers that wait for `poll`; `reader` decides which are dropped
    delivered      records that the application has and no transaction has committed
    notices        errors of the whole consumer, each to be raised once
    steps          marks steps of the reader, which Ctrl-C may leave in the middle
"""
