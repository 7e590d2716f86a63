"""Keeps the request faults that a test has ordered.

Invariants:
* No fault happens that was not ordered, and each ordered fault is counted when it happens.
* A wrong name or argument raises TypeError or ValueError at once, and changes nothing.

Modules; each line imports only from lines below it:
    controls  the ordered faults, and the requests that they match
    checks    checks of arguments
    names     names of APIs and errors
"""
