"""What is drawn and frozen before the first block: order, lengths, noise profiles."""
