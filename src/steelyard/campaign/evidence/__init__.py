"""What watches a run while the generator works: the server by SQL, the machine by /proc and /sys.

A probe never harms a run: what fails, is refused or hangs is absent, and the absence says why.
"""
