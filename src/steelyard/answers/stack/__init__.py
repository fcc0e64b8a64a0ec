"""Facts, findings and plans of the tuning stack, and the split of a Redis."""
