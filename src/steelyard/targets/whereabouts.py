"""Where a campaign runs: as a Job in the cluster of its servers, or here.

It is the Job where a server is in Kubernetes and none is of this machine. A command that is run
beside Steelyard keeps a campaign here, too, unless the command line says otherwise.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from steelyard.core.experiment import Configuration, Experiment
from steelyard.core.target import EngineName, There
from steelyard.core.wording import InputError
from steelyard.targets.rds import rents


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where a campaign runs.

    Attributes:
        as_job: As a Job in the cluster; otherwise here.
        why: In a half sentence; empty where nothing else would be possible.
    """

    as_job: bool
    why: str = ""


def place_for(
    experiment: Experiment,
    *,
    as_job: bool | None,
    is_inside: bool,
    is_own: Callable[[str], bool],
) -> Whereabouts:
    """Return where a campaign runs.

    Args:
        experiment: The campaign's.
        as_job: What the command line says; None: nothing.
        is_inside: This is a pod of the cluster.
        is_own: Tells whether a host is this machine.

    Raises:
        InputError: It cannot run where the command line says.
    """
    if as_job is False:
        return Whereabouts(as_job=False, why="by --here")
    if as_job is None and not experiment.is_in_kubernetes:
        return Whereabouts(as_job=False)
    tied = next(_tied(experiment, is_own), "")
    if as_job and tied:
        raise InputError(
            f"--in-cluster: {tied}, and a Job cannot reach that",
            hint="Leave --in-cluster out: then the load comes from here, and servers in the cluster"
            " are reached through a forwarded port. Or give it another target.",
        )
    if as_job:
        return Whereabouts(as_job=True, why="by --in-cluster")
    if is_inside:
        return Whereabouts(as_job=False, why="this is a pod of the cluster")
    # What is run where Steelyard is was written for this machine.
    run_here = (
        f"the restart_command of `{configuration.name}` is run here"
        for configuration, target in _existing(experiment)
        if target.restart_command
    )
    if tied := tied or next(run_here, ""):
        return Whereabouts(as_job=False, why=tied)
    return Whereabouts(as_job=True)


def lacking(experiment: Experiment, *, has_account: bool, has_secrets: bool) -> Iterator[str]:
    """Yield what a campaign's Job is not given to log on with, a sentence each.

    Nothing of the kind is ever taken from this machine.
    """
    if rents(experiment) and not (has_account or has_secrets):
        yield (
            "The Job has no credentials for AWS: name a Secret with AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY (--secret NAME), or a ServiceAccount with a role"
            " (--service-account NAME)"
        )
    there = {each.name: target for each, target in _existing(experiment)}
    if there and not has_secrets:
        names = ", ".join(f"`{name}`" for name in there)
        variables = " or ".join(dict.fromkeys(_VARIABLE[t.system.name] for t in there.values()))
        yield (
            f"The Job has no password for {names}: if the server wants one, name a Secret with"
            f" {variables} (--secret NAME)"
        )


_VARIABLE: Final = {EngineName.POSTGRES: "PGPASSWORD", EngineName.REDIS: "REDISCLI_AUTH"}


def _tied(experiment: Experiment, is_own: Callable[[str], bool]) -> Iterator[str]:
    """Yield which servers can be reached from this machine alone, and why."""
    for configuration in experiment.configurations:
        target = configuration.target
        if target.is_here:
            yield f"the server of `{configuration.name}` ({target.kind}) is started on this machine"
    for configuration, target in _existing(experiment):
        if "" in target.hosts:
            yield f"only this machine knows where the server of `{configuration.name}` is"
        yield from (
            f"the host of `{configuration.name}`, {host}, is this machine"
            for host in target.hosts
            if host and is_own(host)
        )


def _existing(experiment: Experiment) -> Iterator[tuple[Configuration, There]]:
    """Yield the servers outside of a cluster that are there already."""
    for each in experiment.configurations:
        if isinstance(each.target, There) and each.target.home is None:
            yield each, each.target
