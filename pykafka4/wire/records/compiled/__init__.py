"""The compiled core: one extension module, `_hot`, which `setup.py` builds where there is a C compiler. Only `hot` imports it.

Rule: the same bytes, results and exception types as `reference`, which says what each function does. `_hot.pyx` names its parts.
"""
