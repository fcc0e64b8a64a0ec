"""Volumes that data or WAL would fill are refused before a Cluster is made."""

from dataclasses import replace

import pytest

from fakes.campaigns import an_experiment
from steelyard.campaign.foresee.forecast import _max_wal_bytes
from steelyard.core.experiment import Layer, Setting
from steelyard.core.target import CloudNativePgTarget
from steelyard.core.wording import GIB, MIB, PreflightError
from steelyard.systems.protocol import Dataset
from steelyard.targets.kubernetes_site import require_room


def _judge(settings: dict[str, str], scale: int = 1, **target: str) -> None:
    dataset = Dataset(name="d", scale_factor=scale, prepare=())
    require_room(CloudNativePgTarget(**target), settings, [dataset])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "target", "said"),
    [
        ({"max_wal_size": "100GB"}, {"wal_storage": "1Gi"}, "1Gi for WAL .* is 100GB"),
        ({"max_wal_size": "102400"}, {"wal_storage": "1Gi"}, "for WAL has no room"),
        ({}, {"wal_storage": "1Gi"}, "max_wal_size is 1GB"),
        ({"wal_keep_size": "8GB"}, {"wal_storage": "4Gi"}, "for WAL has no room"),
        ({"max_wal_size": "100GB"}, {"storage": "20Gi"}, "20Gi has no room .* copy, WAL"),
    ],
)
def test_wal_that_would_fill_its_volume_is_refused(
    settings: dict[str, str], target: dict[str, str], said: str
) -> None:
    """On a volume of its own, by the server's default too; beside the data where it is asked."""
    with pytest.raises(PreflightError, match=said) as caught:
        _judge(settings, **target)
    assert "max_wal_size" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({"max_wal_size": "4GB"}, {"wal_storage": "5Gi", "storage": "1Gi"}),
        ({"max_wal_size": "4GB"}, {"storage": "20Gi"}),
        ({}, {"storage": "1Gi"}),
        ({"max_wal_size": "much"}, {"wal_storage": "1Gi"}),
    ],
)
def test_wal_that_fits_is_taken(settings: dict[str, str], target: dict[str, str]) -> None:
    """WAL on its own volume takes none of the data's; a wrong value is the server's to refuse."""
    _judge(settings, **target)


def test_data_that_would_fill_their_volume_are_refused() -> None:
    """Without a word of WAL where nothing sizes it."""
    with pytest.raises(PreflightError, match="copy, and what grows") as caught:
        _judge({}, scale=1000, storage="20Gi")
    assert "max_wal_size" not in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value", "size"),
    [
        ("max_wal_size", "64GB", 64 * GIB),
        ("Max_WAL_Size", "64GB", 64 * GIB),
        ("max_wal_size", "1024 ", GIB),
        ("max_wal_size", "0x400", GIB),
        ("max_wal_size", "1536.5", 1536.5 * MIB),
        ("wal_level", "replica", GIB),
    ],
)
def test_the_forecast_reads_wal_as_the_server_does(name: str, value: str, size: float) -> None:
    """Names have no case, and a number alone is megabytes."""
    setting = Setting(layer=Layer.POSTGRES, name=name, value=value)
    asked = replace(an_experiment().configurations[0], settings=(setting,))
    assert _max_wal_bytes(asked) == size
