"""Two configurations of one campaign, or two campaigns, beside each other."""
