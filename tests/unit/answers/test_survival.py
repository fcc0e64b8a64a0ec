"""What an acknowledged commit survives: both sides of every rule."""

from dataclasses import replace

import pytest

from fakes.durable import LOCAL, TWICE
from steelyard.answers.crashes import Footing, Keeper, survivals
from steelyard.answers.durability.results import Fate, Loss, Survival
from steelyard.core.stack import StorageClassFacts

MACHINE = Footing(keeper=Keeper.MACHINE)
OTHERS = Footing(keeper=Keeper.OTHERS)
CLUSTER = Footing(keeper=Keeper.CLUSTER, volumes=(LOCAL,))
LONGHORN = replace(CLUSTER, volumes=(TWICE,))
STANDBY = replace(CLUSTER, standbys=1, why_not="nobody asked", apart=True)
REQUIRED = replace(STANDBY, waits="required", why_not="")
PREFERRED = replace(REQUIRED, waits="preferred")


def with_parameters(**parameters: str) -> StorageClassFacts:
    """Return a class of Longhorn with these parameters beside or instead of its own."""
    return replace(TWICE, parameters={**TWICE.parameters, **parameters})


def what(footing: Footing, loss: Loss) -> Survival:
    """Return the answer for one failure."""
    return next(each for each in survivals(footing) if each.loss is loss)


def fates(footing: Footing) -> tuple[Fate, ...]:
    """Return what is lost when server, power, node, disk and site are lost."""
    return tuple(each.fate for each in survivals(footing))


KEPT, LAST, ALL, UNKNOWN = Fate.KEPT, Fate.LAST, Fate.ALL, Fate.UNKNOWN


@pytest.mark.parametrize(
    ("footing", "expected"),
    [
        (MACHINE, (KEPT, KEPT, ALL, ALL, ALL)),
        (OTHERS, (KEPT, KEPT, UNKNOWN, UNKNOWN, UNKNOWN)),
        (CLUSTER, (KEPT, KEPT, ALL, ALL, ALL)),
        (LONGHORN, (KEPT, KEPT, KEPT, KEPT, ALL)),
        (STANDBY, (LAST, LAST, LAST, LAST, ALL)),
        (REQUIRED, (KEPT, KEPT, KEPT, KEPT, ALL)),
        (PREFERRED, (KEPT, KEPT, LAST, LAST, ALL)),
    ],
    ids=["machine", "others", "local", "longhorn", "standby", "required", "preferred"],
)
def test_where_the_copies_are(footing: Footing, expected: tuple[Fate, ...]) -> None:
    """With PostgreSQL's defaults the copies alone decide; a site takes all that is in it."""
    assert fates(footing) == expected


@pytest.mark.parametrize("footing", [MACHINE, OTHERS, CLUSTER, LONGHORN])
def test_a_commit_that_does_not_wait_for_wal(footing: Footing) -> None:
    """synchronous_commit = off gives up the last commits wherever a server starts again."""
    lazy = replace(footing, settings={"synchronous_commit": "off", "wal_writer_delay": "150"})
    for loss in (Loss.SERVER, Loss.POWER):
        assert what(footing, loss).fate is KEPT
        assert what(lazy, loss).fate is LAST
        assert "up to 450 ms" in what(lazy, loss).reason
        assert what(lazy, loss).source == "PostgreSQL documentation, 'Asynchronous Commit'"
    for loss in (Loss.NODE, Loss.DISK):
        worse = LAST if footing is LONGHORN else what(footing, loss).fate
        assert what(lazy, loss).fate is worse


@pytest.mark.parametrize("value", ["on", "remote_apply", "remote_write", "local"])
def test_every_other_commit_waits_for_its_own_wal(value: str) -> None:
    """All values but off flush the server's own WAL before they answer."""
    asked = replace(MACHINE, settings={"synchronous_commit": value})
    assert fates(asked)[:2] == (KEPT, KEPT)


def test_a_delay_that_is_not_known_is_told_by_its_name() -> None:
    """A server that was never seen has shown no delay."""
    lazy = replace(MACHINE, settings={"synchronous_commit": "off"})
    assert "up to three times wal_writer_delay" in what(lazy, Loss.SERVER).reason


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_what_damages_the_database_when_the_power_goes(name: str) -> None:
    """The server may be killed; the kernel may not, nor may the volume start on another node."""
    unsafe = replace(LONGHORN, settings={name: "off"})
    assert fates(unsafe) == (KEPT, ALL, ALL, ALL, ALL)
    assert f"{name} = off" in what(unsafe, Loss.POWER).reason
    assert fates(replace(LONGHORN, settings={name: "on"})) == fates(LONGHORN)


def test_damage_weighs_more_than_delay() -> None:
    """With fsync and synchronous_commit off the power takes everything, a kill the last."""
    both = replace(MACHINE, settings={"fsync": "off", "synchronous_commit": "off"})
    assert fates(both)[:2] == (LAST, ALL)


@pytest.mark.parametrize(
    ("volume", "expected", "why"),
    [
        (with_parameters(numberOfReplicas="1"), ALL, "has one replica"),
        (with_parameters(numberOfReplicas="3"), KEPT, "3 replicas on 3 nodes"),
        (with_parameters(replicaSoftAntiAffinity="enabled"), ALL, "may lie on one node"),
        (with_parameters(replicaSoftAntiAffinity="ignored"), KEPT, "2 replicas on 2 nodes"),
        (StorageClassFacts(name="ebs", provisioner="ebs.csi.aws.com"), UNKNOWN, "ebs.csi.aws.com"),
        (None, UNKNOWN, "not in the record"),
        (LOCAL, ALL, "one node"),
    ],
)
def test_what_a_lost_node_leaves_of_a_volume(
    volume: StorageClassFacts | None, expected: Fate, why: str
) -> None:
    """Replicas on other nodes keep it; what nobody knows is said to be unknown, never kept."""
    for loss in (Loss.NODE, Loss.DISK):
        found = what(replace(CLUSTER, volumes=(volume,)), loss)
        assert found.fate is expected
        assert why in found.reason


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ((TWICE, TWICE), KEPT),
        ((TWICE, LOCAL), ALL),
        ((LOCAL, TWICE), ALL),
        ((TWICE, None), UNKNOWN),
        ((None, LOCAL), ALL),
    ],
)
def test_data_and_wal_must_both_survive(
    volumes: tuple[StorageClassFacts | None, ...], expected: Fate
) -> None:
    """The worse of the two volumes decides."""
    assert what(replace(CLUSTER, volumes=volumes), Loss.NODE).fate is expected


def test_the_disks_cache_below_longhorn_is_told_of() -> None:
    """Power: Longhorn's replicas do not flush the disk's cache; a local volume does."""
    assert "that of the disk" in what(LONGHORN, Loss.POWER).reason
    assert "longhorn/longhorn#4504" in what(LONGHORN, Loss.POWER).source
    assert "Longhorn" not in what(CLUSTER, Loss.POWER).reason


def test_why_commits_do_not_wait_is_told() -> None:
    """An asynchronous standby takes over without what had not reached it."""
    assert "nobody asked" in what(STANDBY, Loss.SERVER).reason


@pytest.mark.parametrize("footing", [REQUIRED, PREFERRED])
def test_instances_that_may_share_a_node_may_both_be_lost(footing: Footing) -> None:
    """Where the anti-affinity is not required, a lost node or disk leaves what the volumes keep."""
    near = replace(footing, apart=False)
    for loss in (Loss.NODE, Loss.DISK):
        assert what(near, loss).fate is Fate.ALL
        assert "only prefers different nodes" in what(near, loss).reason
        assert what(footing, loss).fate is not Fate.ALL
    assert what(near, Loss.POWER) == what(footing, Loss.POWER)


def test_a_preferred_standby_is_worth_no_more_than_the_own_disk() -> None:
    """While none is ready the primary alone has the commits, as its settings keep them."""
    unsafe = replace(PREFERRED, settings={"fsync": "off"})
    assert fates(unsafe) == (KEPT, ALL, LAST, LAST, ALL)
    assert fates(replace(REQUIRED, settings={"fsync": "off"})) == fates(REQUIRED)


def test_every_answer_has_a_reason() -> None:
    """No failure is passed over, and nothing is called kept or lost without saying why."""
    for footing in (MACHINE, OTHERS, CLUSTER, LONGHORN, STANDBY, REQUIRED, PREFERRED):
        found = survivals(footing)
        assert [each.loss for each in found] == list(Loss)
        assert all(each.reason for each in found)
        assert all(each.source for each in found if each.fate in (KEPT, LAST))
