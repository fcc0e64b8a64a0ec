"""Why one configuration is faster, from the evidence around its runs."""
