"""Redis and Valkey: the server program, its settings, its keys, its load generators."""
