"""Arguments in; text and exit codes out. The only place that prints or exits."""

import steelyard.targets  # noqa: F401 - kinds of target register there
