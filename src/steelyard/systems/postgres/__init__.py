"""PostgreSQL: programs, settings, data sets, pgbench."""
