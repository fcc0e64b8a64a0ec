"""Where servers and load generators run: this machine, a cluster, a Job in it; no database system.

A place provisions a server, starts it, changes settings there, runs commands, and takes away what
it made. What is run is handed to it by an engine of ``systems``.
"""
