"""One document model, and its renderings: terminal, Markdown, HTML and charts.

Nothing here computes a statistic, reads a clock or writes a file: a report is rebuilt offline from
a record, and repeated it is the same to the byte. What the document says is written in ``answers``.
"""
