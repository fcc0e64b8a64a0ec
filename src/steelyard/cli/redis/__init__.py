"""Verbs of ``steelyard redis``."""
