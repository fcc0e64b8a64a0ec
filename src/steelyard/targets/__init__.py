"""What `kind:` names: how an experiment gets its servers from a system and a place."""
