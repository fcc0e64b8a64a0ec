"""Rules for configurations, comparisons and campaigns: what one brings about itself stays in.

Each rule looks at the runs that count and at what was seen around them; none throws anything away.
"""
