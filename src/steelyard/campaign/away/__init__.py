"""Campaigns in a cluster: packed, followed and fetched."""
