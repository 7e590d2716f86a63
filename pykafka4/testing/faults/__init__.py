"""What a test orders to go wrong with requests (`controls`), and the checks of what it gives (`names`, `checks`).

Invariants:
* Nothing goes wrong that was not ordered, and what was ordered is counted each time it happens.
* A wrong name or argument raises TypeError or ValueError when it is given, and changes nothing.
"""
