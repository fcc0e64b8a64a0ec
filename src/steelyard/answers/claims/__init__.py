"""Published results examined: what somebody's own figures support, and what they cannot."""
