"""Pure functions from arrays to estimates, levels and verdicts.

No I/O, no clock, no random state that the caller did not hand in. METHOD numbers in docstrings
refer to docs/methods.md.
"""
