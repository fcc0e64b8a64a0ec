"""The stack below the servers of a campaign: turned for a configuration, seen in effect, put back.

Settings of a configuration outside its server become knobs, or steps that a person or a user's
command does; what this machine lacks for them is said before.

Invariant: what is there before the first change of a knob is in the ledger when it is changed;
after ``put`` every knob that the configuration does not name is as it was before the campaign, and
after ``remove`` all of them are.
"""

import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from steelyard.core import experiment as model
from steelyard.core import linux as host_settings
from steelyard.core import wording
from steelyard.core.linux import HUGE_PAGES
from steelyard.core.outside import Command, TurnedKnob
from steelyard.core.stack import Knob, KnobKind
from steelyard.core.target import LocalTarget
from steelyard.gateways.host import CpuLatency, Host
from steelyard.gateways.process import Operator, Processes
from steelyard.places.local.machine import capacity
from steelyard.places.protocol import Ledger, LimitsInForce, Unfit
from steelyard.systems.postgres.server import Installation
from steelyard.tuning.apply.applier import SnapshotLedger, change, put_back
from steelyard.tuning.apply.door import COUNTERPART, KnobDoor
from steelyard.tuning.facts.linux import POOLS, default_page_bytes, pool_at
from steelyard.tuning.plan import arithmetic

# The least that any version takes: which one a configuration runs is not asked here.
_FRUGAL_VERSION = 15
_MAPPED = "mmap"
_ROOM = 1.1  # of what the hint asks for: newer versions need up to 5 % more


def require_huge_pages(experiment: model.Experiment, host: Host) -> None:
    """Raise when a configuration with ``huge_pages = on`` could not start here.

    Pages of its ``huge_page_size`` count. Nothing is checked where the machine does not tell its
    huge pages, and nothing for endpoints.

    Raises:
        PreflightError: With what is needed, what is free, and the command that reserves it.
    """
    default = page_bytes(host)
    needs: dict[int, list[tuple[int, str]]] = {}
    for configuration in experiment.configurations:
        asked = configuration.asked_folded().get("huge_pages", "").lower()
        insists = asked in ("on", "true", "yes", "1")
        if configuration.name not in experiment.targets_of(LocalTarget) or not insists:
            continue
        size = _require_mapping(configuration, default)
        if HUGE_PAGES not in configuration.asked(model.Layer.LINUX) and size:
            needs.setdefault(size, []).append((_least_bytes(configuration), configuration.name))
    for size, of_size in needs.items():
        _require_pages(*max(of_size), size, host)


def _require_mapping(configuration: model.Configuration, default: int) -> int:
    asked = configuration.asked_folded()
    kind = asked.get("shared_memory_type", _MAPPED).lower()
    if kind != _MAPPED:
        raise wording.PreflightError(
            f"configuration `{configuration.name}` asks for huge_pages = on with"
            f" shared_memory_type = {kind}, which PostgreSQL never puts on huge pages",
            hint="Set `shared_memory_type: mmap`, or `huge_pages: off`.",
        )
    size = int((wording.in_unit(asked.get("huge_page_size", "0"), "kB") or 0) * wording.KIB)
    if HUGE_PAGES in configuration.asked(model.Layer.LINUX) and size not in (0, default):
        raise wording.PreflightError(
            f"configuration `{configuration.name}` asks for huge pages of"
            f" {wording.format_bytes(size)}, and its {HUGE_PAGES} reserves those of"
            f" {wording.format_bytes(default)}",
            hint=f"Leave `huge_page_size` out, or reserve the pages yourself without {HUGE_PAGES}.",
        )
    return size or default


def _require_pages(least: int, name: str, size: int, host: Host) -> None:
    free, needed = _free_pages(host, size), -(-least // size)
    if free is None or needed <= free:
        return
    count = max(int(least * _ROOM) // size + 1, needed)
    directory, pages = _pool_directory(size), wording.format_bytes(size)
    hint = f"Reserve them (root): sysctl -w vm.nr_hugepages={count}"
    if size != page_bytes(host):
        hint = (
            f"Reserve them (root): echo {count} > {directory}/nr_hugepages (large ones: at boot, by"
            f" hugepagesz={size // wording.MIB}M hugepages={count} on the kernel's command line)"
        )
    raise wording.PreflightError(
        f"configuration `{name}` asks for huge_pages = on and needs at least {needed} huge pages of"
        f" {pages}; {free} are free",
        hint=f"{hint}, and set it back to what it was afterwards.",
    )


def require_shared_memory(experiment: model.Experiment, host: Host) -> None:
    """Raise when the shared memory of a configuration's server is larger than this machine.

    Limits of control groups count. Nothing is known of endpoints, and nothing is guessed.

    Raises:
        PreflightError: With what is needed and what there is.
    """
    local = [t for t in experiment.configurations if t.name in experiment.targets_of(LocalTarget)]
    needs = {t: _least_bytes(t) for t in local}
    if not needs:
        return
    _require_system_v(needs, host)
    largest = max(needs, key=lambda configuration: needs[configuration])
    memory = capacity(host).memory_bytes
    if needs[largest] > memory:
        culprit = _largest_part(largest)
        usual = ": a quarter of the memory is usual" if culprit == "shared_buffers" else ""
        raise wording.PreflightError(
            f"the server of configuration `{largest.name}` takes at least"
            f" {wording.format_bytes(needs[largest])} of shared memory, and there are"
            f" {wording.format_bytes(memory)} of memory here",
            hint=f"Lower its `{culprit}`{usual}.",
        )


def _largest_part(configuration: model.Configuration) -> str:
    asked = configuration.asked_folded()
    return min(
        ("shared_buffers", *asked),
        key=lambda name: arithmetic.least_shared_memory_bytes(
            {each: value for each, value in asked.items() if each != name}, _FRUGAL_VERSION
        ),
    )


def _require_system_v(needs: Mapping[model.Configuration, int], host: Host) -> None:
    limits = {"kernel.shmmax": 1, "kernel.shmall": mmap.PAGESIZE}
    for configuration, needed in needs.items():
        if configuration.asked_folded().get("shared_memory_type", _MAPPED).lower() != "sysv":
            continue
        for name, unit in limits.items():
            limit = (host.read(f"/proc/sys/{name.replace('.', '/')}") or "").strip()
            if limit.isdecimal() and int(limit) * unit < needed:
                raise wording.PreflightError(
                    f"configuration `{configuration.name}` has shared_memory_type = sysv and needs"
                    f" at least {wording.format_bytes(needed)}; {name} allows"
                    f" {wording.format_bytes(int(limit) * unit)}",
                    hint=f"Raise it (root): sysctl -w {name}={int(needed * _ROOM) // unit + 1}, or"
                    " set `shared_memory_type: mmap`.",
                )


def _least_bytes(configuration: model.Configuration) -> int:
    return arithmetic.least_shared_memory_bytes(configuration.asked_folded(), _FRUGAL_VERSION)


def _pool_directory(size: int) -> str:
    return f"{POOLS}/hugepages-{size // wording.KIB}kB"


def _free_pages(host: Host, size: int) -> int | None:
    directory = _pool_directory(size)
    pool = pool_at(host, directory, size)
    if pool is None:
        return 0 if host.names(POOLS) else None
    more = (host.read(f"{directory}/nr_overcommit_hugepages") or "0").strip()
    return pool.available + (max(int(more) - pool.surplus, 0) if more.isdigit() else 0)


class HugePageNeeds:
    """Counts the pages of each configuration's server: by its own program, or by a formula.

    Args:
        installations: Server programs of the configurations, by name.
        processes: Runs them.
        account: Unprivileged one to run them as, where Steelyard is root.
        host: Says how large a huge page is.
    """

    def __init__(
        self,
        installations: Mapping[str, Installation],
        processes: Processes,
        account: str | None,
        host: Host,
    ) -> None:
        self._installations = installations
        self._processes = processes
        self._account = account
        self._host = host

    def estimate(self, configuration: model.Configuration) -> int:
        """Return about how many pages a configuration's server takes; nothing is started."""
        count = arithmetic.formula_counter(self._installations[configuration.name].major)
        return count(configuration.asked_folded(), page_bytes(self._host)).pages

    def count(self, configurations: Iterable[model.Configuration]) -> Mapping[str, int]:
        """Return how many pages the servers of configurations take, by name.

        Raises:
            PreflightError: A server's program does not say.
        """
        by_program: dict[Installation, list[model.Configuration]] = {}
        for configuration in configurations:
            by_program.setdefault(self._installations[configuration.name], []).append(configuration)
        found: dict[str, int] = {}
        for installation, mine in by_program.items():
            if installation.major < arithmetic.COUNTING_SINCE:
                found |= {each.name: self.estimate(each) for each in mine}
                continue
            with arithmetic.server_counter(installation, self._processes, self._account) as count:
                size = page_bytes(self._host)
                found |= {each.name: count(each.asked_folded(), size).pages for each in mine}
        return found


def page_bytes(host: Host) -> int:
    """Return the size of the pages that ``vm.nr_hugepages`` counts; 0 where there are none."""
    return default_page_bytes(host) or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The machine's pool of huge pages at one moment.

    Attributes:
        standing: Its pages, without those that the kernel lent beyond its size.
        taken: In use by others, or promised to them.
    """

    standing: int
    taken: int

    def with_room_for(self, needed: int) -> int:
        """Return how large the pool must be for a server that takes so many pages.

        What others have is on top, and no pool becomes smaller than it is: its pages may be for
        somebody who has not started yet.
        """
        return max(self.standing, self.taken + needed)


def pool_of(host: Host) -> Pool:
    """Return the pool as it is now."""
    size = page_bytes(host)
    pool = pool_at(host, _pool_directory(size), size)
    if pool is None:
        return Pool(standing=0, taken=0)
    return Pool(standing=pool.own, taken=pool.total - pool.available)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Does manual steps."""

    processes: Processes
    operator: Operator

    def require(self, configuration: str, step: model.ManualStep) -> None:
        """Check that there is somebody to do a step.

        Raises:
            PreflightError: An operator is asked for and there is no terminal.
        """
        if not step.command and not self.operator.is_there:
            raise wording.PreflightError(
                f"`manual` of `{configuration}` asks the operator, and there is no terminal",
                hint="Start it from a terminal, or give it a `command`.",
            )

    def do(self, configuration: str, step: model.ManualStep) -> None:
        """Do a step and return when it is done.

        Raises:
            TargetError: The command failed, or nobody confirmed in time.
        """
        if step.command:
            self._run(configuration, step)
        elif not self.operator.confirms(f"{configuration}: {step.text}", timeout_s=step.timeout_s):
            raise wording.TargetError(
                f"nobody confirmed within {wording.format_duration(step.timeout_s)} that this was"
                " done for"
                f" `{configuration}`: {step.text}",
                hint="Give `manual` a longer `timeout`, or a `command`.",
            )

    def _run(self, configuration: str, step: model.ManualStep) -> None:
        command = Command(argv=step.command, environment={"STEELYARD_CONFIGURATION": configuration})
        try:
            completed = self.processes.run(command, timeout_s=step.timeout_s)
        except wording.MeasurementError as error:
            raise wording.TargetError(
                f"the command of `manual` of `{configuration}` failed: {error.message}",
                hint="Give it a longer `timeout`, or look at what it waits for.",
            ) from error
        if not completed.succeeded:
            raise wording.TargetError(
                f"the command of `manual` of `{configuration}` exited with {completed.exit_status}:"
                f" {completed.tail(2)}",
                hint="Try it by hand, with STEELYARD_CONFIGURATION set to the configuration's"
                " name.",
            )


_SYSFS: Final = {
    host_settings.TRANSPARENT: "/sys/kernel/mm/transparent_hugepage/enabled",
    host_settings.TRANSPARENT_DEFRAG: "/sys/kernel/mm/transparent_hugepage/defrag",
    host_settings.GOVERNOR: "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
}
_SYSCTLS: Final = "/proc/sys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """One setting of a configuration with the knob that brings it about.

    Attributes:
        knob: None where it is no file of the kernel (``dma_latency``).
    """

    setting: model.Setting
    knob: Knob | None


def turned_settings(configuration: model.Configuration, device: str | None) -> tuple[Turned, ...]:
    """Return everything that a configuration asks for outside its server.

    Args:
        configuration: Whose settings.
        device: Of the data, as ``8:0``; None where it has none.
    """
    return tuple(
        Turned(setting=setting, knob=_knob(setting, device))
        for setting in configuration.settings
        if setting.layer is model.Layer.LINUX
    )


def _knob(setting: model.Setting, device: str | None) -> Knob | None:
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
    """Return where another configuration's setting is looked at for one that does not name it.

    Args:
        turned: Of a configuration that names it.
        device: Of the data of the one that does not.
    """
    if turned.knob is None or turned.setting.name != host_settings.READ_AHEAD:
        return turned
    return replace(turned, knob=replace(turned.knob, place=read_ahead_place(device)))


def read_ahead_place(device: str | None) -> str:
    """Return the file of a disk's read-ahead in KiB."""
    return f"/sys/dev/block/{device or 'none'}/queue/read_ahead_kb"


def unfit_settings(asked: Mapping[str, str], host: Host, *, device: str | None) -> Iterator[Unfit]:
    """Yield the settings of the layer ``linux`` that this machine cannot have."""
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
        hint = wording.did_you_mean(name, known) or "Leave it out."
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


Key = tuple[str, str]  # what is turned: kind and place of a knob, or a setting without one
_READ_AHEAD_UNIT: Final = {host_settings.READ_AHEAD: "kB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StackMeans:
    """What turning the stack needs.

    Attributes:
        doors: To each kind of knob there is.
        devices: Disk of each configuration's data as ``8:0``, by name; None where it has none.
        needs: Counts huge pages; None where no configuration asks for them.
    """

    doors: Mapping[KnobKind, KnobDoor]
    host: Host
    latency: CpuLatency
    hooks: Hooks
    ledger: SnapshotLedger
    devices: Mapping[str, str | None]
    needs: HugePageNeeds | None = None


class TurnedKnobs:
    """Keeps what was there before a campaign turned a knob; its ledger has it before the turn."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._turned: dict[tuple[KnobKind, str], TurnedKnob] = {}

    def kept(self, knob: Knob) -> str | None:
        """Return what was at a knob's place before this session turned it; None: it did not."""
        turned = self._turned.get((knob.kind, knob.place))
        return None if turned is None else turned.snapshot

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Note what is there before a knob is turned for the first time."""
        turned = TurnedKnob(knob=knob, snapshot=snapshot)
        self._ledger.created(turned)
        self._turned[knob.kind, knob.place] = turned

    def put_back(self, knob: Knob) -> None:
        """Note that it is as it was."""
        self._ledger.removed(self._turned[knob.kind, knob.place])
        del self._turned[knob.kind, knob.place]


class StackSettings:
    """Everything outside the servers that any configuration of an experiment sets."""

    def __init__(self, experiment: model.Experiment, means: StackMeans) -> None:
        self._experiment = experiment
        self._means = means
        self._turned: Mapping[str, Mapping[Key, Turned]] = {
            t.name: {_key(each): each for each in turned_settings(t, means.devices.get(t.name))}
            for t in experiment.configurations
        }
        self._named = {key: one for asked in self._turned.values() for key, one in asked.items()}
        self._pool: Pool | None = None
        self._pools: Mapping[str, int] | None = None
        self._kept: list[Knob] = []
        self._active = ""
        self._done = ""
        self._troubles: dict[Key, str] = {}

    def unfit(self, configuration: str) -> tuple[Unfit, ...]:
        """Return what of a configuration's ``linux`` this machine cannot have."""
        asked = self._experiment.configuration(configuration).asked(model.Layer.LINUX)
        device = self._means.devices.get(configuration)
        pairs = {
            one: two for one, two in COUNTERPART.items() if one > two and {one, two} <= {*asked}
        }
        exclusive = (
            Unfit(
                key=one,
                message=f"`{configuration}` sets `{one}` and `{two}`: the kernel zeroes one",
                hint="Leave one of the two out; null removes an inherited one.",
            )
            for one, two in pairs.items()
        )
        return (*exclusive, *unfit_settings(asked, self._means.host, device=device))

    def require_ready(self) -> None:
        """Check everything that can be known before anything is touched.

        Raises:
            PreflightError: A knob could not take effect, or there is nobody to do a manual step.
            PrivilegeError: The account may not.
        """
        for configuration in self._experiment.configurations:
            if configuration.manual is not None:
                self._means.hooks.require(configuration.name, configuration.manual)
            for turned in self._turned[configuration.name].values():
                if turned.knob is None:
                    self._require_latency()
                else:
                    knob = self._estimated(configuration.name, turned.knob)
                    self._door(knob).require(knob)

    def _require_latency(self) -> None:
        obstacle = self._means.latency.obstacle()
        if obstacle:
            raise wording.PrivilegeError(
                f"the wake-up of CPUs cannot be limited: {obstacle}",
                hint="Run Steelyard as root, or remove `dma_latency`.",
            )

    def put(self, configuration: str) -> None:
        """Bring the stack of a configuration about; what did not work is in ``in_force``.

        Raises:
            TargetError: A manual step failed.
        """
        asked = self._turned[configuration]
        self._troubles, self._active = {}, configuration
        if self._pool is None:  # before the first change: afterwards it holds our own pages
            self._pool = pool_of(self._means.host)
        for key, turned in self._named.items():
            if key not in asked:
                self._attempt(key, turned, None)
        for key, turned in asked.items():
            self._attempt(key, turned, configuration)
        step = self._experiment.configuration(configuration).manual
        if step is not None and configuration != self._done:
            self._done = ""
            self._means.hooks.do(configuration, step)
            self._done = configuration

    def _attempt(self, key: Key, turned: Turned, configuration: str | None) -> None:
        try:
            if turned.knob is None:
                if configuration:
                    self._means.latency.hold(host_settings.latency_us(turned.setting.value))
                else:
                    self._means.latency.release()
            elif configuration:
                self._turn(self._counted(configuration, turned.knob))
            elif (snapshot := self._means.ledger.kept(turned.knob)) is not None:
                self._door(turned.knob).revert(turned.knob, snapshot)
        except wording.RecordError:
            raise
        except wording.SteelyardError as error:
            self._troubles[key] = f"{turned.setting.label}: {error.message}"

    def _turn(self, knob: Knob) -> None:
        door = self._door(knob)
        if self._means.ledger.kept(knob) is None:
            if door.verify(knob).holds:
                return
            self._means.ledger.keep(knob, door.snapshot(knob))
            self._kept.append(knob)
        change(knob, door)

    def _door(self, knob: Knob) -> KnobDoor:
        return self._means.doors[knob.kind]

    def _estimated(self, configuration: str, knob: Knob) -> Knob:
        if knob.value != host_settings.AUTO or self._means.needs is None:
            return knob
        needed = self._means.needs.estimate(self._experiment.configuration(configuration))
        return replace(knob, value=str(pool_of(self._means.host).with_room_for(needed)))

    def _counted(self, configuration: str, knob: Knob) -> Knob:
        """Return a knob with the number of pages in place of ``auto``.

        They are counted once, on top of the pool before the first change: which configuration comes
        first must not decide how large it is.
        """
        if knob.value != host_settings.AUTO or self._means.needs is None:
            return knob
        if self._pools is None:
            asking = [
                t
                for t in self._experiment.configurations
                if t.asked(model.Layer.LINUX).get(host_settings.HUGE_PAGES) == host_settings.AUTO
            ]
            pool = self._pool or pool_of(self._means.host)
            needs = self._means.needs.count(asking)
            self._pools = {name: pool.with_room_for(pages) for name, pages in needs.items()}
        return replace(knob, value=str(self._pools[configuration]))

    def in_force(self) -> LimitsInForce:
        """Return what is in effect of all that any configuration names, and what is not as put."""
        asked = self._turned[self._active]
        deviations = dict(self._troubles)
        for key, turned in asked.items():
            trouble = self._deviation(turned)
            if trouble:
                deviations.setdefault(key, f"{turned.setting.label}: {trouble}")
        seen = (self._seen(turned) for _, turned in sorted(self._shown().items()))
        return LimitsInForce(effective=tuple(seen), deviations=tuple(deviations.values()))

    def _shown(self) -> Mapping[tuple[model.Layer, str], Turned]:
        device = self._means.devices.get(self._active)
        shown = {_name(turned): seen_beside(turned, device) for turned in self._named.values()}
        return shown | {_name(turned): turned for turned in self._turned[self._active].values()}

    def _deviation(self, turned: Turned) -> str:
        """Return in what a setting is not as the configuration asks.

        Empty where it is, or unseen.
        """
        if turned.knob is None:
            limit, asked = self._means.latency.in_force_us(), turned.setting.value
            late = limit is not None and limit > host_settings.latency_us(asked)
            return f"asked to be {asked} us and is {limit} us" if late else ""
        knob = self._counted(self._active, turned.knob)
        check = self._door(knob).verify(knob)
        return " ".join(check.facts) if check.holds is False else ""

    def _seen(self, turned: Turned) -> model.EffectiveSetting:
        setting = turned.setting
        if turned.knob is None:
            return self._latency_seen(setting)
        seen = self._door(turned.knob).seen(turned.knob)
        value, unit = seen.value, _READ_AHEAD_UNIT.get(setting.name)
        if value is None:
            return model.EffectiveSetting(
                name=setting.label, value="not visible", source=seen.reason
            )
        return model.EffectiveSetting(
            name=setting.label, value=value, unit=unit, source=seen.source
        )

    def _latency_seen(self, setting: model.Setting) -> model.EffectiveSetting:
        limit, source = self._means.latency.in_force_us(), "/dev/cpu_dma_latency"
        if limit is None or limit >= host_settings.NO_LATENCY_LIMIT_US:
            value = "not visible" if limit is None else "unlimited"
            return model.EffectiveSetting(name=setting.label, value=value, source=source)
        return model.EffectiveSetting(
            name=setting.label, value=str(limit), unit="us", source=source
        )

    def remove(self) -> None:
        """Put everything back as it was before the campaign, the last change first.

        Raises:
            LeftBehindError: Something does not go back; all the rest was tried.
        """
        self._means.latency.release()
        troubles = []
        for knob in reversed(self._kept.copy()):
            try:
                put_back(knob, self._door(knob), self._means.ledger)
                self._kept.remove(knob)
            except wording.RecordError:
                raise
            except wording.SteelyardError as error:
                troubles.append(error)
        if troubles:
            raise wording.LeftBehindError(
                "; ".join(error.message for error in troubles),
                hint=f"{troubles[0].hint} Then run `steelyard clean`.".strip(),
            )


def _key(turned: Turned) -> Key:
    if turned.knob is None:
        return "", turned.setting.name
    return turned.knob.kind, turned.knob.place


def _name(turned: Turned) -> tuple[model.Layer, str]:
    return turned.setting.layer, turned.setting.name
