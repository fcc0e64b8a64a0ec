"""From the text of an experiment file to a validated experiment, all problems at once."""
