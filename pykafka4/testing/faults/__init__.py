"""Keeps the request faults that a test has ordered.

Invariants:
* No fault happens that was not ordered. A fault with a number of `times` is counted down at each use.
* A wrong name of an API or an error raises ValueError at once; the fault is not ordered.

Modules; each line imports only from lines below it:
    controls  the ordered faults, and the requests that they match
    checks    checks of arguments
    names     names of APIs and errors
"""
