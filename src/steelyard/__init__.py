"""Steelyard weighs databases: which is faster, by how much, how sure that is, and why."""

__version__ = "0.1.0"
