"""From the settings of a treatment outside its server to knobs, and what this machine lacks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from steelyard.experiment.host_checks import domain_name
from steelyard.experiment.suggestions import did_you_mean
from steelyard.gateways.host import Host
from steelyard.model import host_settings
from steelyard.model.experiment import Layer, Setting, Treatment
from steelyard.model.stack import Knob, KnobKind, Scope
from steelyard.platforms.platform import Unfit

_SYSFS: Final = {
    host_settings.TRANSPARENT: "/sys/kernel/mm/transparent_hugepage/enabled",
    host_settings.TRANSPARENT_DEFRAG: "/sys/kernel/mm/transparent_hugepage/defrag",
    host_settings.GOVERNOR: "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
}
_SYSCTLS: Final = "/proc/sys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """One setting of a treatment with the knob that brings it about.

    Attributes:
        knob: None where it is no file of the kernel (``dma_latency``).
    """

    setting: Setting
    knob: Knob | None


def turned_settings(treatment: Treatment, device: str | None) -> tuple[Turned, ...]:
    """Return everything that a treatment asks for outside its server.

    Args:
        treatment: Whose settings.
        device: Of the data, as ``8:0``; None where it has none.
    """
    return tuple(
        Turned(setting=setting, knob=_knob(setting, treatment, device))
        for setting in treatment.settings
        if setting.layer in (Layer.LINUX, Layer.KVM)
    )


def _knob(setting: Setting, treatment: Treatment, device: str | None) -> Knob | None:
    if setting.layer is Layer.KVM:
        name = domain_name(treatment.domain_xml) or ""
        return Knob(
            name=f"kvm:domain {name}",
            layer="kvm",
            kind=KnobKind.DOMAIN,
            place=name,
            value=treatment.domain_xml,
            scope=Scope.MACHINE,
        )
    if setting.name == host_settings.DMA_LATENCY:
        return None
    kind, place, value = KnobKind.SYSFS, _SYSFS.get(setting.name, ""), setting.value
    if setting.name == host_settings.READ_AHEAD:
        place = read_ahead_place(device)
        value = str(host_settings.read_ahead_kib(setting.value))
    elif host_settings.is_sysctl(setting.name):
        kind, place = KnobKind.SYSCTL, setting.name
    return Knob(name=f"linux:{setting.name}", layer="linux", kind=kind, place=place, value=value)


def seen_beside(turned: Turned, device: str | None) -> Turned:
    """Return where another treatment's setting is looked at for one that does not name it.

    Args:
        turned: Of a treatment that names it.
        device: Of the data of the one that does not.
    """
    if turned.knob is None or turned.setting.name != host_settings.READ_AHEAD:
        return turned
    return replace(turned, knob=replace(turned.knob, place=read_ahead_place(device)))


def read_ahead_place(device: str | None) -> str:
    """Return the file of a disk's read-ahead in KiB."""
    return f"/sys/dev/block/{device or 'none'}/queue/read_ahead_kb"


def unfit_settings(asked: Mapping[str, str], host: Host, *, device: str | None) -> Iterator[Unfit]:
    """Yield the settings of the layer ``linux`` that this machine cannot have.

    Args:
        asked: Value by name.
        host: This machine.
        device: Of the data.
    """
    for name, value in asked.items():
        if host_settings.is_sysctl(name):
            yield from _no_sysctl(name, host)
        elif name == host_settings.GOVERNOR:
            yield from _no_governor(value, host)
        elif name != host_settings.DMA_LATENCY:
            yield from _no_file(name, host, device)


def _no_file(name: str, host: Host, device: str | None) -> Iterator[Unfit]:
    if name == host_settings.READ_AHEAD:
        if host.read(read_ahead_place(device)) is None:
            message = "the data are on a file system without a disk of its own"
            yield Unfit(key=name, message=message, hint="Name a `directory:` on a disk.")
    elif host.read(_SYSFS[name]) is None:
        message = "this kernel has no transparent huge pages"
        yield Unfit(key=name, message=message, hint="Leave it out.")


def _no_sysctl(name: str, host: Host) -> Iterator[Unfit]:
    path = f"{_SYSCTLS}/{name.replace('.', '/')}"
    if host.read(path) is None:
        folder, _, _ = path.rpartition("/")
        prefix = name.rpartition(".")[0]
        known = [f"{prefix}.{each}" for each in host.names(folder)]
        hint = did_you_mean(name, known) or "Leave it out."
        yield Unfit(key=name, message=f"this kernel has no `{name}`", hint=hint)


def _no_governor(value: str, host: Host) -> Iterator[Unfit]:
    policy = "/sys/devices/system/cpu/cpu0/cpufreq"
    known = host.read(f"{policy}/scaling_available_governors")
    if host.read(f"{policy}/scaling_governor") is None:
        yield Unfit(
            key=host_settings.GOVERNOR,
            message="no governor of CPU frequency is visible here, as in a virtual machine",
            hint="Turn it on the host, as a `manual` step, or leave it out.",
        )
    elif known is not None and value not in known.split():
        yield Unfit(
            key=host_settings.GOVERNOR,
            message=f"this machine has no governor `{value}`",
            hint=f"It has {', '.join(known.split())}.",
        )
