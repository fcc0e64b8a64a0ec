"""What a file says of the host: ``linux:``, ``kvm:`` and ``manual:``, by the file alone."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from pydantic_core import PydanticCustomError

from steelyard.campaign.file.document import Issue, KeyPath
from steelyard.campaign.file.form import LevelForm
from steelyard.campaign.file.form_parts import ManualForm
from steelyard.campaign.file.form_target import TargetForm
from steelyard.campaign.file.form_values import setting_value, shown
from steelyard.campaign.file.kinds import model_of
from steelyard.campaign.file.validation import Draft
from steelyard.core import linux as host_settings
from steelyard.core.errors import InputError
from steelyard.core.spelling import did_you_mean
from steelyard.tuning.facts.domain_xml import name_of_domain

# In comments too: the record has the whole text. A `<secret>` that only refers to one is none.
_DOMAIN_SECRET: Final = re.compile(
    r"\bpassw(?:or)?d\s*=\s*(?:'[^']|\"[^\"])"
    r"|<secret\b[^>]*(?<!/)>\s*[^<\s]"
    r"|\bsecret,[^'\"]*\bdata="
)
_COMMON: Final = ("vm.nr_hugepages", "vm.swappiness", *host_settings.SHORT_NAMES)


class HasHost(Protocol):
    """A configuration with everything it inherits, as far as it is outside the server."""

    @property
    def target(self) -> TargetForm:
        """Return the keys of its target."""
        ...

    @property
    def linux(self) -> Mapping[str, str]:
        """Return its kernel settings."""
        ...

    @property
    def domain(self) -> str | None:
        """Return the file of its virtual machine."""
        ...

    @property
    def manual(self) -> ManualForm | None:
        """Return what is done by hand."""
        ...


def linux_issues(draft: Draft, path: KeyPath) -> Iterator[Issue]:
    """Yield what is wrong with the names and values of one configuration's or level's ``linux``."""
    given = draft.document.at((*path, "linux"))
    for name, value in given.items() if isinstance(given, dict) else ():
        where = (*path, "linux", name)
        try:
            host_settings.check_name(name)
        except InputError as error:
            hint = did_you_mean(name, _COMMON) or error.hint
            yield Issue(path=where, message=error.message, hint=hint, at_key=True)
            continue
        try:
            text = setting_value(value)
        except PydanticCustomError:
            continue  # the form has said it
        try:
            if text is not None:
                host_settings.check_value(name, text)
        except InputError as error:
            yield Issue(path=where, message=error.message, hint=error.hint)


def manual_issues(path: KeyPath, level: LevelForm) -> Iterator[Issue]:
    """Yield that nobody is told what to do."""
    given = level.manual.model_fields_set
    if given and level.manual.text is None and level.manual.command is None:
        message = "`manual` says neither what to do nor which command does it"
        yield Issue(path=(*path, "manual"), message=message, hint="Add `text` or `command`.")


def host_issues(draft: Draft, merged: Mapping[str, HasHost]) -> Iterator[Issue]:
    """Yield what does not go together once everything is inherited."""
    for name, configuration in merged.items():
        for key, message, hint in _misplaced(name, configuration):
            path: KeyPath = ("configurations", name, key)
            written = draft.document.at(path) is not None
            yield Issue(path=path if written else path[:2], message=message, hint=hint, at_key=True)
    yield from _no_way_back(merged)


def _misplaced(name: str, configuration: HasHost) -> Iterator[tuple[str, str, str]]:
    target = model_of(configuration.target)
    local, pod = target.is_here, target.home is not None
    if configuration.linux and not local:
        what = "a pod" if pod else "an endpoint"
        yield (
            "linux",
            f"the server of `{name}` is {what}, and `linux` turns knobs of this machine",
            "Remove `linux`, use `kind: local`, or turn them by `manual` with a command.",
        )
    if configuration.domain is None:
        return
    if pod:
        yield (
            "kvm",
            f"the server of `{name}` is a pod, whose node is no virtual machine of this libvirt",
            "Remove `kvm`, or name the guest's server with `kind: endpoint`.",
        )
        return
    if local:
        yield (
            "kvm",
            f"the server of `{name}` runs on this machine, which cannot power-cycle itself",
            "Run Steelyard on the hypervisor, with `kind: endpoint` for the server in the guest.",
        )
    elif configuration.manual is None:
        yield (
            "kvm",
            f"nothing power-cycles the virtual machine of `{name}` so that its definition holds",
            "Add `manual` with a command that power-cycles it and waits for the server.",
        )


def _no_way_back(merged: Mapping[str, HasHost]) -> Iterator[Issue]:
    """Yield configurations that nothing leads back to."""
    for key, given in (
        ("manual", {name: each.manual is not None for name, each in merged.items()}),
        ("kvm", {name: each.domain is not None for name, each in merged.items()}),
    ):
        if any(given.values()) and not all(given.values()):
            without = next(name for name, there in given.items() if not there)
            other = next(name for name, there in given.items() if there)
            yield Issue(
                path=("configurations", without),
                message=f"`{other}` has `{key}` and `{without}` has none: nothing leads back",
                hint=f"Give `{key}` to every configuration.",
                at_key=True,
            )


def domain_issue(file: str, text: str) -> tuple[str, str] | None:
    """Return what is wrong with the text of a domain's file, and the way out; None: it is one."""
    if _DOMAIN_SECRET.search(text):
        hint = (
            "Records carry no secrets: remove it, and let the step of `manual` set it, or refer to"
            " one that libvirt keeps (`virsh secret-define`)."
        )
        return f"{shown(file)} has a password in it", hint
    hint = "Write it as `virsh dumpxml` shows one, `<name>` included."
    try:
        name = name_of_domain(text)
    except InputError as error:
        return f"{shown(file)} is no XML of a libvirt domain: {error.message}", hint
    return None if name else (f"{shown(file)} is no XML of a libvirt domain with a name", hint)
