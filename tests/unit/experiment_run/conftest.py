"""Images of these tests are asked anew."""

from collections.abc import Iterator

import pytest

from steelyard.experiment import kubernetes_images


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    """Let every test ask its images anew."""
    kubernetes_images._KNOWN.clear()
    yield
    kubernetes_images._KNOWN.clear()
