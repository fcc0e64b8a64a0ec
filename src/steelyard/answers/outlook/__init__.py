"""What a planned campaign can decide, and when."""
