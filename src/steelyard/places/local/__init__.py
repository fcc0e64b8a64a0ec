"""Servers that Steelyard starts on this machine."""
