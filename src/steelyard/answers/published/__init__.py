"""The figures of the published series beside those measured here."""
