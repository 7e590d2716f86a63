"""Reads what the loop has fetched, on the thread that polls. Invariant: no record is lost, and none counts as finished that is not.

Modules; each line imports only from lines below it:

    reader        returns records from `poll`, and knows the offsets of finished ones
    fetch_buffer  chunks and markers that wait for `poll`: in order of arrival, and by claim
    delivered     records that the application has and no transaction has committed
    notices       errors of the whole consumer, each to be raised once
    places        offsets within the list of a `for` loop
"""
