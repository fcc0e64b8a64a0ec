"""The verbs of ``steelyard kubernetes``, one module each."""
