"""A campaign from its file to its last block: design, forecast, run, evidence, cleaning up."""

import steelyard.targets  # noqa: F401 - kinds of target register there
