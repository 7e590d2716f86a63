"""From the bytes of a connection to the response: `session` decodes and executes requests, `handlers` maps each API to its function.

Rules:
* A connection's requests are executed one at a time, and answered in order.
* Each response passes through `Call.answer` once, where faults and throttling take effect.
* A handler checks `call.ordered_error` for an error that a test has ordered before it changes anything.
"""
