"""Where a campaign runs: the rule, as a table."""

from dataclasses import replace

import pytest

from fakes.campaigns import an_experiment
from steelyard.core.experiment import Experiment
from steelyard.core.places import ClusterService
from steelyard.core.target import (
    CloudNativePgTarget,
    EndpointTarget,
    LocalTarget,
    RdsTarget,
    RedisEndpointTarget,
    Target,
)
from steelyard.core.wording import InputError
from steelyard.gateways.host import is_of_this_machine
from steelyard.targets.whereabouts import lacking, place_for

_MADE = CloudNativePgTarget()
_SERVICE = EndpointTarget(inside=ClusterService(service="db", secret="s"))
_REMOTE = EndpointTarget(uri="postgresql://u@db.example:5432/d")
_RDS = RdsTarget()
_HERE = LocalTarget()
_SOCKET = EndpointTarget(uri="postgresql:///d?host=%2Fvar%2Frun%2Fpostgresql")
_LOOPBACK = EndpointTarget(host="127.0.0.1")
_OWN = EndpointTarget(uri="postgresql://db.example:5432,192.0.2.1:5433/d")
_UNSAID = EndpointTarget(service="orders")
_COMMANDED = EndpointTarget(host="db.example", restart_command=("ssh", "db", "restart"))


def _own(host: str) -> bool:
    return host == "192.0.2.1" or host.startswith(("/", "127."))


def _with(*targets: Target) -> Experiment:
    plain = an_experiment()
    pairs = zip(plain.configurations, (*targets, *targets), strict=False)
    return replace(plain, configurations=tuple(replace(c, target=t) for c, t in pairs))


@pytest.mark.parametrize(
    ("targets", "as_job", "is_inside", "expected", "why"),
    [
        ((_MADE,), None, False, True, ""),
        ((_MADE, _SERVICE), None, False, True, ""),
        ((_MADE, _REMOTE), None, False, True, ""),
        ((_MADE, _RDS), None, False, True, ""),
        ((_MADE,), None, True, False, "a pod of the cluster"),
        ((_MADE,), False, False, False, "--here"),
        ((_MADE, _HERE), None, False, False, "(local) is started on this machine"),
        ((_MADE, _SOCKET), None, False, False, "/var/run/postgresql, is this machine"),
        ((_MADE, _LOOPBACK), None, False, False, "is this machine"),
        ((_MADE, _OWN), None, False, False, "192.0.2.1, is this machine"),
        ((_MADE, _UNSAID), None, False, False, "only this machine knows"),
        ((_MADE, _COMMANDED), None, False, False, "restart_command"),
        ((_MADE, _COMMANDED), True, False, True, "--in-cluster"),
        ((_REMOTE, _RDS), None, False, False, ""),
        ((_REMOTE, _RDS), True, False, True, "--in-cluster"),
        ((_HERE,), None, False, False, ""),
    ],
)
def test_the_place(
    targets: tuple[Target, ...],
    *,
    as_job: bool | None,
    is_inside: bool,
    expected: bool,
    why: str,
) -> None:
    """The Job where a server is in Kubernetes and none is of this machine."""
    where = place_for(_with(*targets), as_job=as_job, is_inside=is_inside, is_own=_own)
    assert where.as_job is expected
    assert why in where.why
    assert bool(why) == bool(where.why)


@pytest.mark.parametrize("target", [_HERE, _SOCKET, _LOOPBACK, _UNSAID])
def test_what_a_job_cannot_reach_is_refused_by_name(target: Target) -> None:
    """Which configuration, why, and the way out."""
    with pytest.raises(InputError, match=r"--in-cluster: .*`fast`") as caught:
        place_for(_with(_MADE, target), as_job=True, is_inside=False, is_own=_own)
    assert "Leave --in-cluster out" in (caught.value.hint or "")


def test_credentials_are_asked_for_by_name() -> None:
    """They are never taken from here."""
    (aws,) = lacking(_with(_MADE, _RDS), has_account=False, has_secrets=False)
    assert "--service-account" in aws
    (password,) = lacking(_with(_MADE, _REMOTE), has_account=True, has_secrets=False)
    assert "`fast`" in password
    assert "PGPASSWORD" in password
    redis = RedisEndpointTarget(host="cache.example")
    (password,) = lacking(_with(redis), has_account=False, has_secrets=False)
    assert "REDISCLI_AUTH" in password
    assert not [*lacking(_with(_RDS, _REMOTE), has_account=False, has_secrets=True)]


@pytest.mark.parametrize("host", ["/run/redis.sock", "@abstract", "localhost", "127.0.0.1", "::1"])
def test_hosts_of_this_machine(host: str) -> None:
    """Sockets and what is bound here."""
    assert is_of_this_machine(host)


def test_hosts_of_others() -> None:
    """An address of no interface here, and a name that nobody knows."""
    assert not is_of_this_machine("192.0.2.1")
    assert not is_of_this_machine("nowhere.invalid")
