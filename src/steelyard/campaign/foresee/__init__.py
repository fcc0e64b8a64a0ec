"""What a campaign would take and decide, before anything is started."""
