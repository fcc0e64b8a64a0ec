"""What was measured under each workload and load."""
