"""The manifests of the published matrix, word for word.

``STEELYARD_UPDATE_GOLDEN=1`` writes the files anew; read the difference before committing it. The
live tests have a real API server check the same manifests.
"""

from pathlib import Path

import pytest

from steelyard.cli.kubernetes import manifest_text
from steelyard.tuning.files.files import MATRIX, class_text
from support.published_manifests import PRESETS, class_manifests, preset_manifests
from support.snapshots import check_text

GOLDEN = Path(__file__).parents[2] / "golden" / "kubernetes"


@pytest.mark.parametrize("preset", PRESETS)
def test_the_manifests_of_a_preset(preset: str) -> None:
    """Classes and Clusters are what they were before, to the letter."""
    check_text(GOLDEN / f"{preset}.yaml", manifest_text(preset_manifests(preset, "bench"), head=[]))


def test_the_storage_classes_with_their_reasons() -> None:
    """What `steelyard kubernetes storage-classes` prints is what it printed before."""
    check_text(GOLDEN / "storage-classes.yaml", "---\n".join(class_text(each) for each in MATRIX))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_cluster_has_a_class_that_is_printed(preset: str) -> None:
    """No preset rests on a class that users are not given."""
    manifests = preset_manifests(preset, "bench")
    clusters = [each for each in manifests if each["kind"] == "Cluster"]
    asked = {str(each["spec"]["storage"]["storageClass"]) for each in clusters}
    assert len(clusters) >= 3
    assert asked <= set(class_manifests())
    assert asked == {each["metadata"]["name"] for each in manifests[: -len(clusters)]}
