"""What only a whole target shows: keys of another kind, and targets of two kinds in one file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from steelyard.experiment.document import Issue
from steelyard.experiment.form_kubernetes import CLUSTER_KEYS
from steelyard.experiment.form_target import REDIS_TARGETS, TargetForm
from steelyard.experiment.kubernetes_checks import (
    CLUSTER,
    REDIS_CLUSTER,
    REDIS_CLUSTER_KEYS,
    is_here,
    is_in_kubernetes,
    is_provisioned,
    kubernetes_problems,
    pair_problems,
)
from steelyard.experiment.redis_targets import redis_target_problems
from steelyard.experiment.suggestions import listed
from steelyard.experiment.validation import Draft
from steelyard.model.measure import SwitchCost
from steelyard.tuning.profiles import follows_the_machine

_LOCAL: Final = frozenset({"bin", "directory", "port", "connection", "run_as", "initdb", "restore"})
_ENDPOINT: Final = frozenset(
    {
        *("uri", "host", "port", "user", "dbname", "service", "allow_existing"),
        *("restart_command", "restore", "kubernetes"),
    }
)
_HOMES: Final = {
    "local": _LOCAL,
    "endpoint": _ENDPOINT,
    CLUSTER: CLUSTER_KEYS | {"allow_existing"},
    "redis-local": (_LOCAL - {"initdb"}) | {"replica"},
    "redis-endpoint": frozenset(
        {
            *("uri", "host", "port", "user", "db", "tls", "cacert", "cert", "key"),
            *("allow_existing", "restart_command"),
        }
    ),
    REDIS_CLUSTER: REDIS_CLUSTER_KEYS,
}
_OF_ALL: Final = frozenset({"kind", "burst_lasts"})
_SEPARATE: Final = ("host", "port", "user", "dbname", "service", "db", "tls")
_RESTORES: Final = {
    "local": ("reflink", "copy", "template"),
    "endpoint": ("template", "vacuum"),
    "redis-local": ("reflink", "copy"),
}


class HasTarget(Protocol):
    """A treatment with everything it inherits."""

    @property
    def target(self) -> TargetForm:
        """Return the keys of its target that were given anywhere in its line."""
        ...

    @property
    def profiles(self) -> tuple[str, ...]:
        """Return the names of its profiles."""
        ...

    @property
    def limits(self) -> Mapping[str, str]:
        """Return its limits by key of ``cgroup``."""
        ...


def target_issues(draft: Draft, merged: Mapping[str, HasTarget]) -> Iterator[Issue]:
    """Yield what is wrong with targets once everything is inherited."""
    for name, treatment in merged.items():
        for key, message, hint in _problems(treatment.target):
            path = ("treatments", name, "target", key)
            written = draft.document.at(path) is not None
            yield Issue(path=path if written else path[:2], message=message, hint=hint)
        yield from _unfit(draft, name, treatment)
    kinds = {name: each.target.kind or "local" for name, each in merged.items()}
    mixed = sorted(set(kinds.values()))
    if len(mixed) > 1:
        other = next(name for name in kinds if kinds[name] != next(iter(kinds.values())))
        yield Issue(
            path=("treatments", other),
            message=f"the treatments have targets of different kinds: {listed(mixed)}",
            hint="Use one kind in an experiment: this version cannot mix them.",
            at_key=True,
        )
        return
    targets = {name: each.target for name, each in merged.items()}
    for name, message, hint in pair_problems(targets):
        yield Issue(path=("treatments", name), message=message, hint=hint, at_key=True)
    yield from _kept_data(draft, list(targets.values()))


def _kept_data(draft: Draft, targets: Sequence[TargetForm]) -> Iterator[Issue]:
    """Yield that data are to be kept on Clusters that every visit makes anew."""
    reset = None if draft.measure is None else draft.measure.reset
    several = any(target != targets[0] for target in targets)
    if reset in ("block", "campaign") and several and all(map(is_provisioned, targets)):
        yield Issue(
            path=("measure", "reset"),
            message=f"data cannot be kept for a {reset}: the Clusters differ, so that every visit"
            " makes its own",
            hint="Leave `reset` out.",
        )


def _unfit(draft: Draft, name: str, treatment: HasTarget) -> Iterator[Issue]:
    """Yield what does not go together with how the treatment's server comes about."""
    switch = None if draft.measure is None else draft.measure.switch
    target = treatment.target
    if is_here(target):
        if switch == SwitchCost.REPROVISION and target.restore is not None:
            yield Issue(
                path=("measure", "switch"),
                message=f"`{name}` restores by {target.restore}, and where every visit"
                " makes its server anew nothing is restored",
                hint="Remove `restore` from its target, or `switch`.",
            )
        return
    yield from _of_this_machine(name, treatment)
    if not is_provisioned(target):
        yield from _switched(name, target, switch)


def _of_this_machine(name: str, treatment: HasTarget) -> Iterator[Issue]:
    """Yield what is of this machine, on which the server is not."""
    pod = is_in_kubernetes(treatment.target)
    if treatment.limits:
        whose = "a pod" if pod else "an endpoint"
        yield Issue(
            path=("treatments", name, "cgroup"),
            message=f"the server of `{name}` is {whose}, whose processes Steelyard did not"
            " start and cannot limit",
            hint="Write its limits below `resources` of the target."
            if is_provisioned(treatment.target)
            else f"Remove `cgroup`, or use `kind: {_here(treatment.target)}`.",
            at_key=True,
        )
    for profile in filter(follows_the_machine, treatment.profiles):
        yield Issue(
            path=("treatments", name),
            message=f"the profile `{profile}` fits this machine, not the one of"
            f" {'a pod' if pod else 'an endpoint'}",
            hint="Write the settings below `postgres:`.",
            at_key=True,
        )


def _switched(name: str, target: TargetForm, switch: str | None) -> Iterator[Issue]:
    """Yield that a server cannot be switched as asked, because it is there already."""
    what = {CLUSTER: "Cluster", REDIS_CLUSTER: "server"}.get(target.kind or "", "endpoint")
    if switch == SwitchCost.REPROVISION:
        yield Issue(
            path=("measure", "switch"),
            message=f"Steelyard did not make the {what} of `{name}` and cannot make it anew",
            hint=f"Use a target that Steelyard makes ({_makers(target)}), or leave `switch` out.",
        )
    may = target.allow_existing if target.kind == CLUSTER else target.restart_command
    if switch == SwitchCost.RESTART and not may:
        yield Issue(
            path=("measure", "switch"),
            message=f"the {what} of `{name}` cannot be restarted",
            hint="Allow its change with `allow_existing: true`, or leave `switch` out."
            if target.kind == CLUSTER
            else "Give its target a `restart_command`, or leave `switch` out."
            if target.kind != REDIS_CLUSTER
            else "Leave `switch` out.",
        )


def _here(target: TargetForm) -> str:
    """Return the kind of the same database system on this machine."""
    return "redis-local" if target.kind in REDIS_TARGETS else "local"


def _makers(target: TargetForm) -> str:
    if target.kind in REDIS_TARGETS:
        return "`kind: redis-local`, or `kind: redis-kubernetes` without `service`"
    return "`kind: local`, or `kind: cloudnative-pg` without `cluster`"


def _problems(target: TargetForm) -> Iterator[tuple[str, str, str]]:
    kind = target.kind or "local"
    given = target.model_dump(exclude_none=True)
    for key in sorted(given.keys() - _HOMES[kind] - _OF_ALL):
        homes = [home for home, keys in _HOMES.items() if key in keys]
        near = [home for home in homes if (home in REDIS_TARGETS) == (kind in REDIS_TARGETS)]
        message = f"`{key}` belongs to the target {listed(near or homes)}, and this is `{kind}`"
        yield key, message, "Remove it."
    yield from redis_target_problems(target)
    yield from kubernetes_problems(target)
    if target.uri is not None:
        for key in _SEPARATE:
            if key in given:
                hint = "Write it into the URI, or use separate keys only."
                yield key, f"`uri` and `{key}` exclude each other", hint
    if kind not in _RESTORES:
        return
    if target.restore is not None and target.restore not in _RESTORES[kind]:
        hint = f"Use {listed(_RESTORES[kind])}."
        yield "restore", f"the target `{kind}` cannot restore by {target.restore}", hint
    if target.allow_existing and target.restore == "template":
        hint = "Remove `restore`: nothing is copied in a database that is not Steelyard's."
        yield "restore", "an existing database cannot be restored by template", hint
