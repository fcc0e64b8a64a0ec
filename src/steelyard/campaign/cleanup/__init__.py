"""What a campaign made or changed outside its record, and how it is undone."""
