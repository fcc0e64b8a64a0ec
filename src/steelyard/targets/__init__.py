"""Kinds of target: how an experiment gets its servers from a database system and a place.

A kind whose class stands here, beside its assembly, has its line here:
``TARGETS[ENGINE][KIND] = CLASS``.
"""
