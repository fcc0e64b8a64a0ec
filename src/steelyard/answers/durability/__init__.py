"""What a configuration risks in a crash, and which speed was bought with it."""
