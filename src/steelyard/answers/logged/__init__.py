"""Logs of pgbench that somebody else wrote, read and compared."""
