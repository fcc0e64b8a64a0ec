"""The verdict of each workload, how it was reached and what it does not show."""
