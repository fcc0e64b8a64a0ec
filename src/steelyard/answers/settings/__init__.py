"""Settings in force, what differs, and instances that were provisioned."""
