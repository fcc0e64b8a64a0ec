"""The way from one mean latency to another, part by part."""
