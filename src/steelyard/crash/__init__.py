"""Crash tests: servers die under load, and what they had acknowledged is looked for afterwards.

``testing`` has what the data lie on, the deaths, the load and the engines. Estimates are made in
``answers.crashes``.
"""
