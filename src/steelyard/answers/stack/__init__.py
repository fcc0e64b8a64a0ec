"""Facts, findings and plans of the tuning stack."""
