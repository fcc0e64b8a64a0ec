"""What turns leave in devices and memory: both sides of each rule that looks at the evidence."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from made_records import an_experiment, compared
from turned_records import in_turns
from watched import missing, rulings, seen

from steelyard.answers.campaign import analyse
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Finding, Severity
from steelyard.core.measurement import Quantity, Run
from steelyard.core.schedule import Load
from steelyard.core.wording import GIB, MIB

_WRITES, _READS = "writes-in-flight", "cache-pressure"
_RULES = (_WRITES, _READS)
_PAGE = 8192
_SETTLING = 0.4  # of a turn


def _record(
    share: Mapping[str, float] | None = None,
    pages: Mapping[str, float] | None = None,
    *,
    faults: float = 0.0,
    noise: float = 0.003,
    blocks: int = 12,
    written: float = 50.0 * MIB,
    changed: float = 0.0,
    database: float = 1.0 * GIB,
    experiment: Experiment | None = None,
) -> CampaignRecord:
    """Return a record of equal configurations in turns with what their devices did.

    Args:
        share: Of the bytes written while turns settle, by configuration; else that of the time.
        pages: Read from the device per transaction; else none.
        faults: Major faults per transaction of t1.
        noise: Of both, from run to run.
        blocks: Of the record.
        written: Bytes that the device writes in a run's turns.
        changed: Rows per transaction.
        database: Its size.
        experiment: If not the plain one.
    """
    rng = np.random.default_rng(4)

    def with_evidence(run: Run) -> Run:
        assert run.measurement is not None
        counted = run.measurement.transactions
        settling = (share or {}).get(run.configuration, _SETTLING) + noise * rng.standard_normal()
        read = (pages or {}).get(run.configuration, 0.0) * (1.0 + noise * rng.standard_normal())
        totals = {
            Quantity.SETTLING_WRITE_BYTES: settling * written,
            Quantity.SETTLED_WRITE_BYTES: (1.0 - settling) * written,
            Quantity.SETTLED_READ_BYTES: read * _PAGE * counted,
            Quantity.TURNS_MAJOR_FAULTS: faults * counted if run.configuration == "t1" else 0.0,
            Quantity.ROWS_INSERTED: 0.0,
            Quantity.ROWS_UPDATED: changed * counted,
            Quantity.ROWS_DELETED: 0.0,
        }
        levels = {Quantity.DATABASE_BYTES: database, Quantity.MEMORY_BYTES: 4.0 * GIB}
        return replace(run, evidence=seen(totals, levels))

    record = in_turns(blocks=blocks, experiment=experiment)
    return replace(record, runs=tuple(with_evidence(run) for run in record.runs))


def _findings(record: CampaignRecord, code: str) -> list[Finding]:
    return [finding for finding in analyse(record).findings if finding.code == code]


@pytest.mark.parametrize("code", _RULES)
def test_equal_configurations_are_not_accused(code: str) -> None:
    """Both rules look, and nothing is missing."""
    assert not rulings(_record(), code)


@pytest.mark.parametrize("code", _RULES)
def test_runs_in_one_piece_are_not_judged(code: str) -> None:
    """A campaign of starts has no turns, and lacks nothing."""
    assert not rulings(compared(12), code)


def test_writes_that_come_right_after_a_switch_are_a_finding() -> None:
    """In its turns 46 % of the bytes come in 40 % of the time: another one's are among them."""
    (finding,) = _findings(_record(share={"t1": 0.46}), _WRITES)
    assert finding.severity is Severity.WARNING
    assert finding.subject == "t1"
    assert finding.message.startswith("t1: under w0 45.9 % of what")
    assert "in those of t0 (difference 5." in finding.message
    assert finding.message.endswith(" points, 12 blocks)")
    assert "turn_discard" in finding.remedy


def test_the_side_that_pays_is_named_whichever_it_is() -> None:
    """The baseline, too."""
    (finding,) = _findings(_record(share={"t0": 0.46}), _WRITES)
    assert finding.subject == "t0"


def test_writes_that_all_find_alike_are_none() -> None:
    """Both begin with what the other left: it cancels in the comparison."""
    assert not _findings(_record(share={"t0": 0.7, "t1": 0.7}), _WRITES)


def test_a_share_that_differs_by_less_than_a_point_is_borne() -> None:
    """However sure it is."""
    assert not _findings(_record(share={"t1": 0.408}, noise=0.0005, blocks=40), _WRITES)


def test_devices_that_write_next_to_nothing_are_not_judged() -> None:
    """Some pages of a journal fall on one side of a line by chance; nothing is missing either."""
    assert not rulings(_record(share={"t1": 0.9}, written=0.5 * MIB), _WRITES)


def test_blocks_of_which_few_write_are_not_judged() -> None:
    """Four of twelve, as beside a neighbour: there are blocks enough, so nothing is missing."""
    busy, quiet = _record(share={"t1": 0.9}), _record(written=0.5 * MIB)
    runs = tuple(
        one if one.block < 4 else other for one, other in zip(busy.runs, quiet.runs, strict=True)
    )
    assert not rulings(replace(busy, runs=runs), _WRITES)


def test_reads_of_one_warm_server_are_a_finding() -> None:
    """One page in twenty transactions from the device, and data that fit twice."""
    (finding,) = _findings(_record(pages={"t1": 0.05}), _READS)
    assert finding.severity is Severity.WARNING
    assert finding.subject == "t1"
    assert "waited for 0.050 pages" in finding.message
    assert "and 0.000 under t0" in finding.message
    assert "one-by-one" in finding.remedy


def test_memory_that_the_kernel_took_from_a_server_is_a_finding() -> None:
    """Major faults count like pages of data."""
    (finding,) = _findings(_record(faults=0.05), _READS)
    assert finding.subject == "t1"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"changed": 1.0}, "it writes, so it also reads what it is about to change"),
        ({"database": 3.0 * GIB}, "two of them do not fit into 4 GiB"),
        ({"pages": {"t0": 0.05, "t1": 0.05}}, "both wait alike"),
        ({"pages": {"t1": 0.005}}, "one in 200 transactions waits"),
    ],
)
def test_reads_that_are_no_pressure_are_none(how: dict[str, object], why: str) -> None:
    """A workload that writes, data that do not fit, what all have alike, what is little."""
    asked = {"pages": {"t1": 0.05}} | how
    assert not _findings(_record(**asked), _READS), why  # type: ignore[arg-type]


@pytest.mark.parametrize("code", _RULES)
def test_too_few_blocks_are_not_judged(code: str) -> None:
    """Five are not six; the rule says what it lacks and accuses nobody."""
    record = _record(share={"t1": 0.9}, pages={"t1": 1.0}, blocks=5)
    assert missing(record, code) == "6 blocks in turns; 5 are there"
    assert not _findings(record, code)


@pytest.mark.parametrize("code", _RULES)
def test_what_nobody_watched_is_not_judged(code: str) -> None:
    """Runs in turns without evidence, as of an endpoint: nothing to judge, nobody accused."""
    assert not rulings(in_turns(), code)


def test_a_load_that_says_nothing_leaves_the_others() -> None:
    """Two loads of which one writes too little: the value of a block is that of the other."""
    experiment = an_experiment(loads=2)
    record = _record(share={"t1": 0.46}, experiment=experiment)
    small = experiment.loads[0]

    def quiet(run: Run) -> Run:
        if run.cell.load != small or run.evidence is None:
            return run
        totals = {**run.evidence.totals, Quantity.SETTLED_WRITE_BYTES: 0.0}
        totals[Quantity.SETTLING_WRITE_BYTES] = 10.0
        return replace(run, evidence=replace(run.evidence, totals=totals))

    (finding,) = _findings(replace(record, runs=tuple(map(quiet, record.runs))), _WRITES)
    assert "t1: under w0 46" in finding.message


def test_open_loops_are_left_out() -> None:
    """They are never taken in turns; a record of them is judged by neither rule."""
    experiment = replace(
        an_experiment(loads=1), loads=(Load(clients=1, threads=1, rate_per_s=10.0),)
    )
    assert not rulings(_record(share={"t1": 0.9}, experiment=experiment), _WRITES)
