"""Each script of a workload as a result of its own: how its time changes, and with which plan."""
