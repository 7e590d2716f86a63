"""From the bytes of a connection to the answer: `session` decodes and executes requests, `handlers` lists the function for each API.

Invariants:
* A connection's requests are executed one at a time, and answered in order.
* Each answer passes `Call.answer` once: there, faults and throttling take effect.
* A handler asks `call.ordered_error` for the error that a test has ordered, before it changes anything.
"""
