"""What a database system is: its programs, data, settings, generators, and what it says of itself.

Where its servers run is not decided here; ``places`` knows that, and no database system.
"""
