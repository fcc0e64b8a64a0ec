"""A campaign from its file to its last block: design, forecast, run, evidence, cleaning up."""
