"""A Redis server that is there already: used by a database number of its own, left as it was."""
