"""Crash tests: servers die under load, and what they had acknowledged is looked for afterwards.

``testing`` has the deaths, the load and the engines; ``ground`` is what the data lie on, and what a
test has outside. Estimates are made in ``answers.crashes``.
"""
