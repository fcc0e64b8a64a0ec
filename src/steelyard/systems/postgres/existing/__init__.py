"""Servers that are there already: reached through libpq, changed through SQL, left as found."""
