"""Throughput over clients: the law, its peak, and where it does not fit."""
