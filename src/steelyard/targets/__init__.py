"""Kinds of target: how an experiment gets its servers from a database system and a place."""
