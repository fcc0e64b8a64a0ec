"""What a test needs and this machine has not."""

import os
from typing import NoReturn

import pytest


def lacking(message: str) -> NoReturn:
    """Skip with a reason; in CI, which has every part, a missing one is a failure."""
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
