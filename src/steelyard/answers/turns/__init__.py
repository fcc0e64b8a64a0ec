"""Runs in turns: what the switching leaves behind, and servers that still warm up."""
