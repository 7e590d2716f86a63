"""Reads fetched data on the thread that polls. Invariant: no record is lost, and no record counts as finished that is not.

Modules; each line imports only from lines below it:

    reader        returns records from `poll`
    cursors       the places behind returned, and behind finished records
    fetch_buffer  chunks and markers that wait for `poll`: in order of arrival, and by claim
    delivered     records that the application has and no transaction has committed
    notices       errors of the whole consumer, each to be raised once
"""
