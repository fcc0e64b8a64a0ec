"""What a user should know beside the verdicts: settings, checkpoints, negative controls."""
