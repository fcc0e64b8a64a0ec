"""From records to estimates, verdicts, explanations and recommendations.

No I/O of its own: it is given what the record holds and returns frozen results.
"""
