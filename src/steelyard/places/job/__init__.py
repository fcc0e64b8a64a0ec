"""Campaigns that run inside a cluster as a Job: their objects, and the way to their records."""
