"""The request faults that a test orders (`controls`), and checks of its arguments (`names`, `checks`).

Rules:
* No fault happens that was not ordered, and each ordered fault is counted when it happens.
* A wrong name or argument raises TypeError or ValueError at once, and changes nothing.
"""
