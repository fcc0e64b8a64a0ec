"""Targets of RDS and Aurora in a file: what has to be named, and what they do not have."""

import pytest

from steelyard.campaign.file.form_target import TargetForm
from steelyard.campaign.file.kinds import model_of, target_problems
from steelyard.core.target import AuroraTarget, RdsTarget

PLAIN = {"kind": "rds", "region": "us-east-1", "accounts": ["123456789012"]}


def problems(**given: object) -> list[tuple[str, str, str]]:
    """Return what is wrong with a target."""
    return [*target_problems(TargetForm.model_validate({**PLAIN, **given}))]


def test_a_target_is_read_with_its_storage_and_how_long_its_credits_last() -> None:
    """What the file does not say is the class's; a burst follows from class and storage."""
    form = TargetForm.model_validate(
        {**PLAIN, "instance_class": "db.t3.large", "storage": "300Gi", "storage_type": "gp2"}
    )
    target = model_of(form)
    assert isinstance(target, RdsTarget)
    assert (target.gib, target.version, target.accounts) == (300, "16", ("123456789012",))
    assert target.volume.base_iops == 900
    assert target.burst_lasts_s == pytest.approx(42.86 * 60, abs=1)
    assert target.provision.cpus == 2.0
    assert "300 GiB of gp2" in target.provision.storage
    assert "900 IOPS" in target.provision.limits
    assert target.is_made
    assert target.is_restarted
    assert model_of(TargetForm.model_validate(PLAIN)).burst_lasts_s is None  # gp3 has no bucket


def test_a_sound_target_has_no_problem() -> None:
    """Also with everything that storage may have."""
    assert problems() == []
    more = {"storage": "400Gi", "iops": 16000, "storage_throughput": 700, "version": "16.4"}
    assert problems(**more) == []
    assert problems(storage_type="io1", iops=3000, storage="100Gi") == []


@pytest.mark.parametrize("key", ["region", "accounts"])
def test_nothing_is_made_where_nobody_said(key: str) -> None:
    """Region and account have to be named."""
    form = TargetForm.model_validate({name: each for name, each in PLAIN.items() if name != key})
    ((named, message, _),) = target_problems(form)
    assert named == key
    assert "is missing" in message


AURORA = {**PLAIN, "kind": "aurora"}


def test_a_cluster_of_aurora_is_read() -> None:
    """Its storage is for the price alone, so no burst follows from it."""
    given = {"instance_class": "db.serverless", "min_capacity": 1, "max_capacity": 8.5}
    target = model_of(TargetForm.model_validate({**AURORA, **given, "io_optimized": True}))
    assert isinstance(target, AuroraTarget)
    assert (target.gib, target.volume, target.burst_lasts_s) == (10, None, None)
    assert (target.is_serverless, target.max_capacity) == (True, 8.5)
    assert "1 to 8.5 ACU" in target.label
    assert "I/O-Optimized" in target.label
    assert "ACU" not in model_of(TargetForm.model_validate(AURORA)).label
