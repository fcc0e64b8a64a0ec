"""One document model from analyses, then terminal, Markdown, HTML, JSON and charts.

``builder`` words an analysis as a ``document``; ``terminal``, ``markdown`` and ``html`` render it,
``summary`` writes the analysis for programs, ``render`` names them all. Nothing here computes a
statistic, reads a clock or writes a file: a report is rebuilt offline from a record, and repeated
it is the same to the byte.
"""
