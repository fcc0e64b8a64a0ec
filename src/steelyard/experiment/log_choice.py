"""Where a campaign's transaction logs go while it runs: chosen before anything is measured."""

from dataclasses import dataclass

from steelyard.experiment.bench import Bench
from steelyard.model.environment import Fact
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding, Severity
from steelyard.model.latency import LogPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """What a reader must know of it; nothing where no transaction is logged."""

    facts: tuple[Fact, ...] = ()
    findings: tuple[Finding, ...] = ()


def choose_logs(experiment: Experiment, bench: Bench) -> LogChoice:
    """Choose memory or disk, once for all arms, and return what is to be told."""
    if experiment.measure.log is LogPolicy.OFF or not experiment.generator.logs_transactions:
        return LogChoice()
    if bench.logs_in_memory():
        return LogChoice(facts=(_fact("memory"),))
    return LogChoice(facts=(_fact("disk"),), findings=(_ON_DISK,))


def _fact(place: str) -> Fact:
    return Fact(name="transaction logs while a run goes on", value=place, subject="tools")


_ON_DISK = Finding(
    code="logs-on-disk",
    severity=Severity.WARNING,
    message="the logs of transactions are written to a disk while a run goes on: /dev/shm has no"
    " room for them, or takes no directory; where it is the disk that is measured, their writing"
    " is measured with the rest",
    remedy="Give /dev/shm more room (a container: --shm-size=1g), log a share of the transactions"
    " (`measure.log_sampling`), or none (`measure.log: off`).",
    subject="campaign",
)
