"""Rules for Redis about its keys and its memory: what is measured in place of the workload."""

from collections.abc import Iterator
from typing import Final

from steelyard.analysis.judging.facts import CampaignFacts, Runs, levels, ratio, totals
from steelyard.model.evidence import Evidence, Quantity
from steelyard.model.experiment import EngineName
from steelyard.model.findings import Severity
from steelyard.model.rules import (
    KEPT,
    NOTHING_TO_JUDGE,
    Judges,
    Rule,
    Ruling,
    Threshold,
    broken,
    lacking,
)
from steelyard.model.units import KIB, format_bytes, format_share

MISSED_SHARE: Final = 0.01
PAYLOAD_BYTES: Final = 16 * KIB
EXECUTING_SHARE: Final = 0.2
LINK_SHARE: Final = 0.8
RESIDENT_SHARE: Final = 0.9


def _evicted(facts: CampaignFacts) -> Iterator[Ruling]:
    for name in facts.seen.treatments:
        found = totals(facts.runs_of(name), Quantity.EVICTED_KEYS)
        if found is None:
            yield lacking(Quantity.EVICTED_KEYS)
        elif found[0] > 0:
            limit = facts.in_force(name).get("maxmemory", "")
            at = f" at maxmemory {limit}" if limit else ""
            yield broken(f"{name}: {found[0]:,.0f} keys were evicted{at}", subject=name)
        else:
            yield KEPT


def _missed(facts: CampaignFacts) -> Iterator[Ruling]:
    for name in facts.seen.treatments:
        found = totals(facts.runs_of(name), Quantity.KEYSPACE_MISSES, Quantity.KEYSPACE_HITS)
        if found is None:
            yield lacking("keyspace_misses and keyspace_hits")
        elif sum(found) <= 0:
            yield NOTHING_TO_JUDGE
        elif found[0] / sum(found) > MISSED_SHARE:
            share = format_share(found[0] / sum(found))
            yield broken(f"{name}: {share} of the keys that were read did not exist", subject=name)
        else:
            yield KEPT


def _network_bound(facts: CampaignFacts) -> Iterator[Ruling]:
    for name in facts.seen.treatments:
        runs = facts.runs_of(name)
        # Beside pods the links that are read are those of neither the server nor the generator.
        beside_pods = facts.experiment.is_in_kubernetes
        links = [] if beside_pods else levels(runs, Quantity.LINK_BUSIEST_FRACTION)
        payload = _payload_bytes(runs)
        executing = ratio(runs, Quantity.COMMAND_S, Quantity.MAIN_THREAD_CPU_S)
        if links and max(links) > LINK_SHARE:
            yield broken(
                f"{name}: a network link was used to {format_share(max(links))}: its speed was"
                " measured, not the server's",
                subject=name,
            )
        elif payload is None or executing is None:
            yield lacking("network_in_bytes, network_out_bytes, command_s and main_thread_cpu_s")
        elif payload >= PAYLOAD_BYTES and executing < EXECUTING_SHARE:
            yield broken(
                f"{name}: {format_bytes(payload)} a request went through sockets, and commands took"
                f" {format_share(executing)} of the main thread's CPU time: most of it moves bytes",
                subject=name,
            )
        else:
            yield KEPT


def _payload_bytes(runs: Runs) -> float | None:
    found = totals(runs, Quantity.NETWORK_IN_BYTES, Quantity.NETWORK_OUT_BYTES, Quantity.COMMANDS)
    return None if found is None or found[2] <= 0 else (found[0] + found[1]) / found[2]


def _swapped_out(facts: CampaignFacts) -> Iterator[Ruling]:
    for name in facts.seen.treatments:
        seen = [run.evidence for run in facts.runs_of(name) if run.evidence is not None]
        shares = [share for each in seen if (share := _resident_share(each)) is not None]
        if not shares:
            yield lacking("resident_bytes and used_memory_bytes")
        elif min(shares) < RESIDENT_SHARE:
            yield broken(
                f"{name}: only {format_share(min(shares))} of what the server has allocated was in"
                " memory: the rest may be swapped out",
                subject=name,
            )
        else:
            yield KEPT


def _resident_share(evidence: Evidence) -> float | None:
    used = evidence.level(Quantity.USED_MEMORY_BYTES)
    resident = evidence.level(Quantity.RESIDENT_BYTES)
    return None if not used or resident is None else resident / used


_ADMINISTRATION: Final = "Redis documentation, 'Redis administration'"
KEYSPACE_RULES: Final[tuple[Rule[CampaignFacts], ...]] = (
    Rule(
        code="keys-evicted",
        engine=EngineName.REDIS,
        judges=Judges.TREATMENT,
        severity=Severity.WARNING,
        what="The server evicted keys, because it had reached maxmemory.",
        why="Writes pay for evictions, and reads of keys that are gone are cheap: neither is what"
        " the workload asks for.",
        thresholds=(Threshold(value=0.0, shown="any", reason="below maxmemory there are none"),),
        remedy="Raise maxmemory, load fewer keys, or say that eviction is what is measured.",
        source="INFO, evicted_keys",
        judge=_evicted,
    ),
    Rule(
        code="keys-missing",
        engine=EngineName.REDIS,
        judges=Judges.TREATMENT,
        severity=Severity.WARNING,
        what="Reads asked for keys that do not exist.",
        why="A miss sends no value: it is cheaper than the read that was meant.",
        thresholds=(
            Threshold(
                value=MISSED_SHARE,
                shown=f"{format_share(MISSED_SHARE)} of the reads",
                reason="a guess: less hardly moves a mean",
            ),
        ),
        remedy="Load as many keys as requests choose among (`loaded` and `keys`).",
        source="INFO, keyspace_misses; threshold: a guess",
        judge=_missed,
    ),
    Rule(
        code="network-bound",
        engine=EngineName.REDIS,
        judges=Judges.TREATMENT,
        severity=Severity.WARNING,
        what="Large values were moved rather than commands executed, or a network link was nearly"
        " full.",
        why="Throughput is then a rate of bytes: of the network, or of the CPU that copies between"
        " sockets and memory. Settings that concern commands look alike.",
        thresholds=(
            Threshold(
                value=PAYLOAD_BYTES,
                shown=f"{format_bytes(PAYLOAD_BYTES)} a request, in and out, while executing takes"
                f" less than {format_share(EXECUTING_SHARE)} of the main thread's CPU time",
                reason="a guess: a read of 16 KiB is as much as a socket hands over at once",
            ),
            Threshold(
                value=LINK_SHARE,
                shown=f"{format_share(LINK_SHARE)} of a link's speed, of the machine that runs the"
                " generator; not in Kubernetes",
                reason="a guess: headers and acknowledgements take a part of the rest",
            ),
        ),
        remedy="Measure with values of the size that the application has (`value_bytes`), or say"
        " that it holds for large ones.",
        source="INFO, total_net_input_bytes and commandstats; /sys/class/net; thresholds: guesses",
        judge=_network_bound,
    ),
    Rule(
        code="data-swapped-out",
        engine=EngineName.REDIS,
        judges=Judges.TREATMENT,
        severity=Severity.WARNING,
        what="Less of the server was in memory than it has allocated.",
        why="The rest may be swapped out: then every command that needs it waits for the disk, and"
        " all clients wait for that command. Memory that was allocated and never touched looks"
        " alike.",
        thresholds=(
            Threshold(
                value=RESIDENT_SHARE,
                shown=f"{format_share(RESIDENT_SHARE)} of used_memory resident",
                reason="a guess: pages that were never touched are not resident either",
            ),
        ),
        remedy="Look at VmSwap in /proc/PID/status of the server; if it is swapped out, load less"
        " or give the machine more memory.",
        source=f"INFO, used_memory_rss; {_ADMINISTRATION}; threshold: a guess",
        judge=_swapped_out,
    ),
)
