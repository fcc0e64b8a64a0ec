"""Property tests of this folder have no deadline: how long an example takes proves nothing."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
