"""The verbs of ``steelyard stack``."""
