"""Verbs of ``steelyard postgres``."""
