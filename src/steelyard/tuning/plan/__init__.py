"""From a request and the facts of a machine to one consistent design of all layers."""
