"""One document model from analyses, then terminal, Markdown, HTML and charts.

Computes no statistics and reaches no gateway: a report is rebuilt offline from a record.
"""
