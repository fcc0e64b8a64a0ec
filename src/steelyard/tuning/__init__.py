"""Facts and rules of the stack: which settings fit a machine, and why."""
