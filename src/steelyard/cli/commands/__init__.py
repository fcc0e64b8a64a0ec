"""One module per verb; each holds a click command named ``command``."""
