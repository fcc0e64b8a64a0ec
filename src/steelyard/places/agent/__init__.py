"""Load generators elsewhere: what runs programs there, and how it is asked from here."""
