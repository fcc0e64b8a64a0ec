"""From what containers showed before, during and after a run to its evidence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.experiment.probes import pod_accounts as accounts
from steelyard.experiment.probes import pod_counters as counters
from steelyard.experiment.probes.machine import difference, rounded, timeline
from steelyard.experiment.probes.pod_accounts import Account
from steelyard.experiment.probes.pod_counters import Devices
from steelyard.experiment.probes.probe import Part
from steelyard.experiment.probes.sources import Counted
from steelyard.model.evidence import Absence, OtherProcess, Quantity
from steelyard.platforms.kubernetes.pod_runs import StartSkew

# In brackets like a thread of the kernel: interrupts also work for the server.
_INTERRUPTS: Final = "[interrupts]"
_BUSY: Final = (Quantity.CPU_USER_S, Quantity.CPU_SYSTEM_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSeen:
    """A generator's container around a run.

    Attributes:
        before: None where it could not be read; so ``after``.
        failure: Why one of them is missing.
    """

    before: Account | None
    after: Account | None
    failure: str = ""

    @property
    def used(self) -> Counted | None:
        """Return what it used, without what the last reading itself cost; None where unknown."""
        if self.before is None or self.after is None:
            return None
        begin, end = (counters.generator_counters(each) for each in (self.before, self.after))
        return _without_cost(difference(begin, end), Quantity.GENERATOR_CPU_S, self.after)

    @property
    def cpus(self) -> float | None:
        """Return how many CPUs it could use."""
        return None if self.after is None else accounts.usable_cpus(self.after)

    @property
    def share(self) -> float | None:
        """Return the part of these that it used; None where unknown."""
        used_s = (self.used or {}).get(Quantity.GENERATOR_CPU_S)
        took_s = None
        if self.before is not None and self.after is not None:
            took_s = accounts.seconds_between(self.before, self.after)
        if used_s is None or not self.cpus or not took_s:
            return None
        return used_s / (self.cpus * took_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsSeen:
    """The containers of a run as they were read.

    Attributes:
        same_node: A generator's pod is on the database's node, as the cluster says.
        skew: How far apart the generators began.
        taken: Of the loop, with seconds since the run's start.
        ended_s: When the run was over, in the same seconds.
        steelyard_s: CPU time of this process in the run.
        steelyard_boot: What tells the kernel of this machine from others.
        trouble: Why there is no timeline, or no whole one.
    """

    before: Account
    after: Account
    generators: Sequence[GeneratorSeen]
    devices: Devices
    same_node: bool
    skew: StartSkew | None
    taken: Sequence[tuple[float, Account]]
    ended_s: float
    steelyard_s: float
    steelyard_boot: str
    trouble: str = ""

    def part(self) -> Part:
        """Return all of it as a probe tells it."""
        begin, end = (counters.server_counters(e, self.devices) for e in (self.before, self.after))
        server = _without_cost(difference(begin, end), Quantity.SERVER_CPU_S, self.after)
        totals = {
            **server,
            **self._generators_used(),
            Quantity.STEELYARD_CPU_S: rounded(self.steelyard_s),
        }
        levels = {**counters.server_levels(self.after), **self._of_generators()}
        return Part(
            totals={q.value: value for q, value in self._with_others(totals).items()},
            levels={q.value: value for q, value in levels.items()},
            series=timeline(self._readings(), self._with_others_in_passing),
            others=self._interrupts(),
            absent=(
                *counters.absent(self.after, {**totals, **levels}),
                *self._absent_generators(),
                *self._absent_timeline(),
            ),
            server_cpu_s=self._cost_s(),
        )

    def _readings(self) -> list[tuple[float, Counted]]:
        devices = self.devices
        last = counters.timeline_counters(self.after, devices)
        return [
            (0.0, counters.timeline_counters(self.before, devices)),
            *((at_s, counters.timeline_counters(account, devices)) for at_s, account in self.taken),
            (self.ended_s, _without_cost(last, Quantity.SERVER_CPU_S, self.after)),
        ]

    def _generators_used(self) -> Counted:
        """Return the sums over all generators; nothing where one of them is not known."""
        used = [each.used for each in self.generators]
        known = [each for each in used if each is not None]
        if not known or len(known) < len(used):
            return {}
        names = {name for each in known for name in each}
        return {name: rounded(sum(each.get(name, 0.0) for each in known)) for name in names}

    def _of_generators(self) -> Counted:
        """Return how many CPUs the generators could use, and how busy the busiest was."""
        found: Counted = {}
        cpus = [each.cpus for each in self.generators]
        shares = [each.share for each in self.generators]
        if cpus and None not in cpus:
            found[Quantity.GENERATOR_CPUS] = sum(each or 0.0 for each in cpus)
        if shares and None not in shares:
            found[Quantity.GENERATOR_BUSIEST_FRACTION] = rounded(
                max(each or 0.0 for each in shares)
            )
        if self.generators:
            found[Quantity.GENERATORS_BESIDE] = float(max(len(self._beside()), self.same_node))
        if self.skew is not None:
            least_s = max(self.skew.seconds - self.skew.half_width_s, 0.0)
            found[Quantity.GENERATORS_APART_S] = rounded(least_s)
        return found

    def _beside(self) -> list[GeneratorSeen]:
        """Return the generators whose CPUs are those of the server's node."""
        return [each for each in self.generators if self._is_beside(each)]

    def _is_beside(self, generator: GeneratorSeen) -> bool:
        own = self.before.boot
        account = generator.after or generator.before
        if account is None or not own or not account.boot:
            return self.same_node
        return account.boot == own

    @property
    def _steelyard_is_beside(self) -> bool:
        return bool(self.before.boot) and self.before.boot == self.steelyard_boot

    def _with_others(self, used: Counted) -> Counted:
        """Return totals with what is left for all other pods and processes of the node."""
        if not {*_BUSY, Quantity.SERVER_CPU_S} <= used.keys():
            return used
        ours = [used[Quantity.SERVER_CPU_S]]
        for each in self._beside():
            if each.used is None or Quantity.GENERATOR_CPU_S not in each.used:
                return used
            ours.append(each.used[Quantity.GENERATOR_CPU_S])
        if self._steelyard_is_beside:
            ours.append(self.steelyard_s)
        others_s = sum(used[mode] for mode in _BUSY) - sum(ours)
        return {**used, Quantity.OTHERS_CPU_S: rounded(max(others_s, 0.0))}

    def _with_others_in_passing(self, used: Counted) -> Counted:
        """Return the same of an interval, where nobody of ours but the server is on the node."""
        if self._beside() or self._steelyard_is_beside:
            return used
        return self._with_others(used)

    def _interrupts(self) -> tuple[OtherProcess, ...]:
        begin, end = (accounts.interrupts_s(each) for each in (self.before, self.after))
        if begin is None or end is None or end <= begin:
            return ()
        spent = rounded(end - begin)
        return (OtherProcess(pid=0, name=_INTERRUPTS, cpu_s=spent, io_bytes=None),)

    def _absent_generators(self) -> tuple[Absence, ...]:
        reason = next((each.failure for each in self.generators if each.failure), "")
        if not self.generators:
            reason = "no pod of a generator is known"
        return (Absence(subject="the generators' containers", reason=reason),) if reason else ()

    def _absent_timeline(self) -> tuple[Absence, ...]:
        reason = self.trouble or ("" if self.taken else "the loop in the container printed nothing")
        return (Absence(subject="timeline of the machine", reason=reason),) if reason else ()

    def _cost_s(self) -> float | None:
        """Return what the loop used of the server's CPUs; the readings around it are not in it."""
        return self.taken[-1][1].own_cost_s if self.taken else None


def _without_cost(used: Counted, quantity: Quantity, last: Account) -> Counted:
    """Return counters of a container without what it took to read them the last time."""
    if quantity not in used or last.own_cost_s is None:
        return used
    return {**used, quantity: rounded(max(used[quantity] - last.own_cost_s, 0.0))}
