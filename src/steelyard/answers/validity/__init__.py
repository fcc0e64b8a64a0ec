"""Rules for treatments, comparisons and campaigns: what a treatment brings about itself stays in.

Each rule looks at the runs that count and at what was seen around them; none throws anything away.
"""
