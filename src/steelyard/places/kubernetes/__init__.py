"""Pods: load generators and probes in a cluster, and how a server there is reached."""
