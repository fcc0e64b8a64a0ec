"""What only a whole target shows: keys of another kind, and targets of two kinds in one file."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from steelyard.experiment.document import Issue
from steelyard.experiment.form_target import TargetForm
from steelyard.experiment.suggestions import listed
from steelyard.experiment.validation import Draft
from steelyard.model.experiment import SwitchCost
from steelyard.tuning.profiles import follows_the_machine

_LOCAL: Final = frozenset({"bin", "directory", "connection", "run_as", "initdb"})
_ENDPOINT: Final = frozenset(
    {"uri", "host", "user", "dbname", "service", "allow_existing", "restart_command"}
)
_SEPARATE: Final = ("host", "port", "user", "dbname", "service")
_RESTORES: Final = {
    "local": ("reflink", "copy", "template"),
    "endpoint": ("template", "vacuum"),
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


def _unfit(draft: Draft, name: str, treatment: HasTarget) -> Iterator[Issue]:
    """Yield what does not go together with how the treatment's server comes about."""
    switch = None if draft.measure is None else draft.measure.switch
    if treatment.target.kind != "endpoint":
        if switch == SwitchCost.REPROVISION and treatment.target.restore is not None:
            yield Issue(
                path=("measure", "switch"),
                message=f"`{name}` restores by {treatment.target.restore}, and where every visit"
                " makes its server anew nothing is restored",
                hint="Remove `restore` from its target, or `switch`.",
            )
        return
    if treatment.limits:
        yield Issue(
            path=("treatments", name, "cgroup"),
            message=f"the server of `{name}` is an endpoint, whose processes Steelyard did not"
            " start and cannot limit",
            hint="Remove `cgroup`, or use `kind: local`.",
            at_key=True,
        )
    for profile in filter(follows_the_machine, treatment.profiles):
        yield Issue(
            path=("treatments", name),
            message=f"the profile `{profile}` fits this machine, not the one of an endpoint",
            hint="Write the settings below `postgres:`.",
            at_key=True,
        )
    if switch == SwitchCost.REPROVISION:
        yield Issue(
            path=("measure", "switch"),
            message=f"Steelyard did not make the endpoint of `{name}` and cannot make it anew",
            hint="Use a target that Steelyard makes (`kind: local`), or leave `switch` out.",
        )
    if switch == SwitchCost.RESTART and not treatment.target.restart_command:
        yield Issue(
            path=("measure", "switch"),
            message=f"the endpoint of `{name}` cannot be restarted",
            hint="Give its target a `restart_command`, or leave `switch` out.",
        )


def _problems(target: TargetForm) -> Iterator[tuple[str, str, str]]:
    kind = target.kind or "local"
    given = target.model_dump(exclude_none=True)
    foreign, home = (_ENDPOINT, "endpoint") if kind == "local" else (_LOCAL, "local")
    for key in sorted(foreign & set(given)):
        yield key, f"`{key}` belongs to the target `{home}`, and this is `{kind}`", "Remove it."
    if target.uri is not None:
        for key in _SEPARATE:
            if key in given:
                hint = "Write it into the URI, or use separate keys only."
                yield key, f"`uri` and `{key}` exclude each other", hint
    if target.restore is not None and target.restore not in _RESTORES[kind]:
        hint = f"Use {listed(_RESTORES[kind])}."
        yield "restore", f"the target `{kind}` cannot restore by {target.restore}", hint
    if target.allow_existing and target.restore == "template":
        hint = "Remove `restore`: nothing is copied in a database that is not Steelyard's."
        yield "restore", "an existing database cannot be restored by template", hint
