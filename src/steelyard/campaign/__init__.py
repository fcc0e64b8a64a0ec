"""Experiment files, presets, schedule, preflight, the runner and its probes."""
