"""Crash tests: servers die under load, and what they had acknowledged is looked for afterwards.

``testing`` is the whole test and ``crashing`` one death; ``ground`` is what the data lie on,
``writing`` the load, ``belongings`` what is outside and how it is taken away, ``engines`` the place
that names PostgreSQL and Redis. Estimates are made in ``answers.crashes``.
"""
