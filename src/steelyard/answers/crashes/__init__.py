"""What was lost of acknowledged writes when a server died."""
