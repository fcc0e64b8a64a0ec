"""The campaign on disk: journal, schedule, raw output, derived tables.

Written once, read by all. The journal is the record; everything else can be rebuilt from it.
"""
