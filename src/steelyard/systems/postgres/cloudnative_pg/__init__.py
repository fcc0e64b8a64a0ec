"""PostgreSQL clusters that the CloudNativePG operator runs."""
