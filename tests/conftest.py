"""What holds for all tests, wherever they are started."""

import os
import signal

# A shell has its background jobs ignore SIGINT, and what they start inherits that. Tests interrupt
# themselves and what they start, so here it is heard again, by child processes too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Workers are told the width of a terminal that is none; what is printed has its own width.
os.environ.pop("COLUMNS", None)
