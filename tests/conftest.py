"""What holds for all tests, wherever they are started."""

import os
import signal

import hypothesis

# A shell has its background jobs ignore SIGINT, and what they start inherits that. Tests interrupt
# themselves and what they start, so here it is heard again, by child processes too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Workers are told the width of a terminal that is none; what is printed has its own width.
os.environ.pop("COLUMNS", None)

# No test may fail because the machine was slow for a moment; every run of the tests draws anew.
hypothesis.settings.register_profile(
    "a few", deadline=None, max_examples=int(os.environ.get("STEELYARD_EXAMPLES", "30"))
)
hypothesis.settings.load_profile("a few")
