"""Turning knobs: snapshot first, one at a time, the effect read back, undone exactly."""
