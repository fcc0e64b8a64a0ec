"""Long runs: whether the rate holds, and where it falls."""
