"""What PostgreSQL (and later Redis) is: arguments, output parsing, settings; not where it runs."""
