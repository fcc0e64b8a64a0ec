"""The seconds of a run: rate, waits and device beside each other."""
