"""What a machine varies by against itself, and what it can see in how many minutes."""
