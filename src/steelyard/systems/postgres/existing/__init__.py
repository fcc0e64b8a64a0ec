"""PostgreSQL servers that are there already: reached by libpq, changed by SQL, left as found."""
