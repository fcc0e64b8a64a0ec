"""Names and label values of what a campaign makes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.kubernetes import CAMPAIGN, campaign_labels, campaign_value
from steelyard.places.kubernetes.belongings import LONGEST, object_name

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_IDS = st.from_regex(r"[A-Za-z0-9_-]{1,120}-[0-9a-f]{6}", fullmatch=True)


def test_a_plain_id_is_found_in_the_name() -> None:
    """What `kubectl get` shows leads back to the campaign."""
    assert object_name("disks-0a1b2c", "generator-0") == "steelyard-disks-0a1b2c-generator-0"


def test_the_longest_name_is_one_that_the_operator_takes() -> None:
    """A Cluster's name of more than 50 characters is refused by CloudNativePG."""
    assert len(object_name("x" * 200, "generator-12")) <= LONGEST == 50


def test_names_that_differ_in_case_only_stay_two() -> None:
    """Small letters alone would make two campaigns one."""
    assert object_name("Disks-0a1b2c") != object_name("disks-0a1b2c")


@given(campaign_id=_IDS, suffix=st.sampled_from(["", "agent", "generator-0", "generator-117"]))
def test_every_id_gives_a_name_that_kubernetes_takes(campaign_id: str, suffix: str) -> None:
    """Capitals, underscores and length of an id never make an invalid name."""
    name = object_name(campaign_id, suffix)
    assert _LABEL.fullmatch(name)
    assert len(name) <= LONGEST
    assert name == object_name(campaign_id, suffix)
    assert name.endswith(suffix)


@given(campaign_id=_IDS)
def test_every_id_gives_a_label_that_kubernetes_takes(campaign_id: str) -> None:
    """A long id, or one that begins with an underscore, is still a label, and always the same."""
    value = campaign_labels(campaign_id)[CAMPAIGN]
    assert _VALUE.fullmatch(value)
    assert campaign_value(value) == value


@given(ids=st.lists(_IDS, min_size=2, max_size=2, unique=True))
def test_two_ids_never_share_a_label(ids: list[str]) -> None:
    """What belongs to one campaign is never removed as another's."""
    assert campaign_value(ids[0]) != campaign_value(ids[1])
    assert object_name(ids[0]) != object_name(ids[1])
