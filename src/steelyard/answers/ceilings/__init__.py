"""What the machine could do at most, and how near the load came."""
