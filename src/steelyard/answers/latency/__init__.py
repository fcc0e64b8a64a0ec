"""Percentiles and distributions, compared."""
