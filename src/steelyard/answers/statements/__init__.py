"""What each statement and the commit cost a single client."""
