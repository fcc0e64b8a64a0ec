"""Facts of the stack: collected here, over SSH or SQL, or read from a file."""
