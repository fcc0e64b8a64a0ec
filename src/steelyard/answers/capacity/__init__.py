"""What a server sustains, and the highest rate at which it keeps a latency goal."""
