"""What a transaction costs: CPU, WAL, pages and device, with intervals."""
