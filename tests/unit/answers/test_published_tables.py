"""Tables of anybody: read with all that is wrong, examined by every check on both sides."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from steelyard.answers.claims.examination import (
    CHECKS,
    Examination,
    examination_document,
    examination_json,
    examine,
    published_tables,
)
from steelyard.answers.claims.grounds import Grade
from steelyard.answers.claims.statements import Publication, read_claims
from steelyard.answers.claims.tables import COLUMNS, TableError, read_table, table_text
from steelyard.core.findings import Verdict
from steelyard.core.published import NamedFigure, Step, parse_printed, parse_ratio
from steelyard.core.wording import InputError
from steelyard.report.terminal import render_terminal

HEAD = "configuration,workload,clients,tps,latency_mean_ms"
LOADS = (1, 10, 25, 50, 100)


def _table(*lines: str, head: str = HEAD) -> Publication:
    return published_tables([read_table("\n".join((head, *lines)), "t.csv")])


def _column(name: str, rates: tuple[int, ...], workload: str = "reads") -> list[str]:
    """Return rows of a closed loop, latencies fitting."""
    return [
        f"{name},{workload},{clients},{rate},{1000 * clients / rate:.2f}"
        for clients, rate in zip(LOADS, rates, strict=True)
    ]


A = (1011, 5023, 7047, 6981, 6533)
B = (1105, 5518, 7702, 7614, 7187)
C = (2000, 6000, 9000, 9490, 9000)
TWO = (*_column("a", A), *_column("b", B))


def _claims(body: str, rows: tuple[str, ...] = TWO, **further: object) -> Publication:
    """Return a publication with one claim, C, whose assertion is ``body``."""
    text = f'[[claims]]\nid = "C"\narticle = ""\ntext = "so"\n[[claims.asserts]]\n{body}'
    articles, claims = read_claims(text, "claims.toml")
    given = Publication(rows=(), articles=articles, claims=claims, **further)  # type: ignore[arg-type]
    return published_tables([read_table("\n".join((HEAD, *rows)), "t.csv")], given)


def _figure(name: str, value: str) -> NamedFigure:
    return NamedFigure(article="", name=name, value=parse_printed(value))


def _step(*changed: str, measured: str | None = "tps") -> Step:
    return Step(article="", name="s", changed=changed, measured=measured, repeated="once")


def _change(stated: str, more: str = "") -> str:
    return (
        'kind="change"\nmetric="tps"\nworkload="reads"\nclients=50\nof="b"\nagainst="a"\n'
        f"stated={stated}\n{more}"
    )


def _repeated(of_b: float, *, extra: str = "", head: str = "") -> Publication:
    """Return six runs of a and b in blocks, b with a rate of ``of_b``, noise of 1 %."""
    random = np.random.default_rng(7)
    lines = [
        f"{name},reads,50,{rate * (1 + 0.01 * random.standard_normal()):.0f},,{block}"
        + (extra if name == "b" or "," not in extra[1:] else extra.count(",") * ",")
        for block in range(6)
        for name, rate in (("a", 7000.0), ("b", of_b))
    ]
    return _table(*lines, head=f"{HEAD},block{head}")


def _alone(*rows: str, head: str) -> Publication:
    return _table(*rows, head=f"configuration,workload,clients,tps,{head}")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One check: what it objects to, what it does not, and what becomes of the first."""

    check: str
    accused: Callable[[], Publication]
    fair: Callable[[], Publication]
    grade: Grade = Grade.CONTRADICTS


ORDER = 'kind="order"\nmetric="tps"\nworkloads=["reads"]\nbest="{}"\nothers=["{}"]'
CONSTANT = (
    'kind="constant"\nmetric="tps"\nworkloads=["reads"]\npairs=[["b","a"]]\nleast="{}"\nmost="{}"'
)
SERIES = 'kind="series"\nmetric="tps"\nworkload="reads"\nof="a"\nstated={}'
BOUND = 'kind="bound"\nmetric="latency_mean"\nworkload="reads"\nof="a"\nclients=50\nbelow="{}"'
SUM = 'kind="sum"\nname="x"\nformula="{{n}} * 2"\nunit=""\nstated="{}"\n{}'
NEED = 'kind="need"\nname="pages"\ngiven="{}"\nasked=["3000"]'
COSTS = 'kind="costs"\nfirst="100"\nfirst_hours="{}"\nsecond="170"\nsecond_hours="8"'
CAUSE = 'kind="cause"\nstep="s"\ncause="numa"\nevidence="node accesses"\n{}'
SAME = 'kind="same"\nmetric="tps"\nworkload="reads"\nclients=50\namong=["a","{}"]'
CONTROL = 'kind="control"\nworkload="ping"\nbefore="100"\nafter=["{}"]'
CASES = (
    Case(
        check="stated-change",
        accused=lambda: _claims(_change('["+15%"]')),
        fair=lambda: _claims(_change('["+9.1%"]')),
    ),
    Case(
        check="two-figures",
        accused=lambda: _claims(_change('["+9%", "+15%"]')),
        fair=lambda: _claims(_change('["+9%"]')),
    ),
    Case(
        check="two-figures",
        accused=lambda: _claims(SUM.format("6", 'other="7"'), figures=(_figure("n", "3.0"),)),
        fair=lambda: _claims(SUM.format("6", 'other="6"'), figures=(_figure("n", "3"),)),
    ),
    Case(
        check="within-noise",
        accused=lambda: _claims(_change('["+9%"]')),
        fair=lambda: _claims(_change('["+36%"]'), (*_column("a", A), *_column("b", C))),
        grade=Grade.UNDECIDED,
    ),
    Case(
        check="within-noise",
        accused=lambda: _repeated(7010.0, extra=",a,+0.1%", head=",against,stated_change"),
        fair=lambda: _repeated(7700.0, extra=",a,+10%", head=",against,stated_change"),
        grade=Grade.UNDECIDED,
    ),
    Case(
        check="noise-floor",
        accused=lambda: _alone("a,r,1,100,g", "b,r,1,110,g", head="equal_group"),
        fair=lambda: _alone("a,r,1,100,", "b,r,1,110,", head="equal_group"),
        grade=Grade.LIMIT,
    ),
    Case(
        check="sameness",
        accused=lambda: _claims(SAME.format("b"), (*TWO[:5], "b,reads,50,9000,5.56")),
        fair=lambda: _claims(_change('["+9%"]')),
    ),
    Case(
        check="sameness",
        accused=lambda: _claims(SAME.format("b")),
        fair=lambda: _claims(_change('["+9%"]')),
        grade=Grade.UNDECIDED,
    ),
    Case(
        check="control-moves",
        accused=lambda: _claims(CONTROL.format("60")),
        fair=lambda: _claims(CONTROL.format("95")),
    ),
    Case(
        check="control-moves",
        accused=lambda: _repeated(7700.0, extra=",yes", head=",control"),
        fair=lambda: _repeated(7000.0, extra=",yes", head=",control"),
    ),
    Case(
        check="equal-differs",
        accused=lambda: _repeated(7700.0, extra=",g", head=",equal_group"),
        fair=lambda: _repeated(7000.0, extra=",g", head=",equal_group"),
    ),
    Case(
        check="order",
        accused=lambda: _claims(ORDER.format("a", "b")),
        fair=lambda: _claims(ORDER.format("b", "a")),
    ),
    Case(
        check="constant",
        accused=lambda: _claims(CONSTANT.format("600", "700")),
        fair=lambda: _claims(CONSTANT.format("94", "655")),
    ),
    Case(
        check="copied-column",
        accused=lambda: _claims(SERIES.format([str(each) for each in B])),
        fair=lambda: _claims(SERIES.format([str(each) for each in A])),
    ),
    Case(
        check="copied-column",
        accused=lambda: _table(*_column("a", A), *_column("b", A)),
        fair=lambda: _table(*_column("a", A), *_column("b", (*A[:3], 6982, 6533))),
    ),
    Case(
        check="count",
        accused=lambda: _claims('kind="count"\narticle=""\nstated=9'),
        fair=lambda: _claims('kind="count"\narticle=""\nstated=2'),
    ),
    Case(
        check="bound",
        accused=lambda: _claims(BOUND.format("7")),
        fair=lambda: _claims(BOUND.format("7.2")),
    ),
    Case(
        check="stated-figure",
        accused=lambda: _claims(SUM.format("8", ""), figures=(_figure("n", "3.0"),)),
        fair=lambda: _claims(SUM.format("6", ""), figures=(_figure("n", "3.0"),)),
    ),
    Case(
        check="need",
        accused=lambda: _claims(NEED.format("8192")),
        fair=lambda: _claims(NEED.format("3050")),
    ),
    Case(
        check="periods-differ",
        accused=lambda: _claims(COSTS.format("730")),
        fair=lambda: _claims(COSTS.format("8")),
    ),
    Case(
        check="periods-differ",
        accused=lambda: _alone("a,r,1,99,100,730", "b,r,1,98,170,8", head="cost,cost_hours"),
        fair=lambda: _alone("a,r,1,99,100,730", "b,r,1,98,170,730", head="cost,cost_hours"),
    ),
    Case(
        check="no-evidence",
        accused=lambda: _claims(CAUSE.format(""), steps=(_step("numa"),)),
        fair=lambda: _claims(CAUSE.format(""), steps=(_step("numa", measured="node accesses"),)),
        grade=Grade.NO_EVIDENCE,
    ),
    Case(
        check="other-cause",
        accused=lambda: _claims(CAUSE.format('besides=[["bytes","2 * 3","MB/s"]]')),
        fair=lambda: _claims(CAUSE.format("")),
        grade=Grade.NO_EVIDENCE,
    ),
    Case(
        check="idle-setting",
        accused=lambda: _claims(CAUSE.format('idle=["1.5","1.9"]')),
        fair=lambda: _claims(CAUSE.format('idle=["2.5","1.9"]')),
        grade=Grade.LIMIT,
    ),
    Case(
        check="burst-as-sustained",
        accused=lambda: _claims(CAUSE.format(""), steps=(_step("fresh burst buckets"),)),
        fair=lambda: _claims(CAUSE.format(""), steps=(_step("more pages"),)),
        grade=Grade.NO_EVIDENCE,
    ),
    Case(
        check="burst-as-sustained",
        accused=lambda: _alone("a,r,1,99,yes,600", head="burstable,seconds"),
        fair=lambda: _alone("a,r,1,99,yes,7200", head="burstable,seconds"),
        grade=Grade.LIMIT,
    ),
    Case(
        check="several-changes",
        accused=lambda: _claims('kind="unchanged"\nstep="s"', steps=(_step("x", "y"),)),
        fair=lambda: _claims('kind="unchanged"\nstep="s"', steps=(_step("x"),)),
    ),
    Case(
        check="several-changes",
        accused=lambda: _alone("a,r,1,99,b,x; y", "b,r,1,98,,", head="against,changed"),
        fair=lambda: _alone("a,r,1,99,b,x", "b,r,1,98,,", head="against,changed"),
        grade=Grade.LIMIT,
    ),
    Case(
        check="averaged-workloads",
        accused=lambda: _alone("a,reads + writes,1,99,", head="unit"),
        fair=lambda: _alone("a,reads,1,99,", head="unit"),
        grade=Grade.LIMIT,
    ),
    Case(
        check="averaged-workloads",
        accused=lambda: _table(*_three((3000, 2000, 2500))),
        fair=lambda: _table(*_three((3000, 2000, 2400))),
        grade=Grade.LIMIT,
    ),
    Case(
        check="units-differ",
        accused=lambda: _alone("a,io,1,99,8-KiB page", "b,io,1,98,request", head="unit"),
        fair=lambda: _alone("a,io,1,99,request", "b,io,1,98,request", head="unit"),
    ),
    Case(
        check="units-differ",
        accused=lambda: _claims(
            'kind="counted"\nstep="s"\nwhat="I/O"', steps=(_step("unit of an I/O"),)
        ),
        fair=lambda: _claims('kind="counted"\nstep="s"\nwhat="I/O"', steps=(_step("engine"),)),
        grade=Grade.NO_EVIDENCE,
    ),
    Case(
        check="maximum",
        accused=lambda: _alone("a,r,1,99,max", head="statistic"),
        fair=lambda: _alone("a,r,1,99,median", head="statistic"),
        grade=Grade.LIMIT,
    ),
    Case(
        check="one-run",
        accused=lambda: _table(*TWO),
        fair=lambda: _repeated(7000.0),
        grade=Grade.LIMIT,
    ),
    Case(
        check="littles-law",
        accused=lambda: _table("a,reads,10,1000,20.0", "b,reads,10,1000,10.0"),
        fair=lambda: _table("a,reads,10,1000,10.1", "b,reads,10,1000,9.9"),
    ),
    Case(
        check="littles-law",
        accused=lambda: _table("a,reads,10,1000,3.0"),
        fair=lambda: _table("a,reads,10,1000,9.0"),
        grade=Grade.LIMIT,
    ),
)  # fmt: skip


def _three(rates: tuple[int, int, int]) -> list[str]:
    return [
        f"a,{workload},{clients},{rate + 10 * clients},"
        for clients in (1, 2, 3)
        for workload, rate in zip(("x", "y", "z"), rates, strict=True)
    ]


def _of(examination: Examination, check: str) -> set[Grade]:
    every = [*examination.notes, *(n for each in examination.claims for n in each.notes)]
    return {note.grade for note in every if note.check == check}


def test_every_check_has_a_case() -> None:
    """None is without a test on both sides."""
    assert {case.check for case in CASES} == {check.id for check in CHECKS}


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{each.check}" for n, each in enumerate(CASES)])
def test_a_check_objects_to_what_is_wrong_and_to_nothing_else(case: Case) -> None:
    """On the one side it says what the case says; on the other side it objects to nothing."""
    assert case.grade in _of(examine(case.accused()), case.check)
    fair = _of(examine(case.fair()), case.check)
    assert not {grade for grade in fair if grade.accuses}, fair


def test_repeats_support_what_their_interval_says() -> None:
    """Blocks make the interval, and the verdict is that of a campaign."""
    faster = examine(_repeated(7700.0)).supported
    assert [(each.verdict, each.runs) for each in faster] == [(Verdict.FASTER, 6)]
    low, high = faster[0].effect.low, faster[0].effect.high
    assert low is not None
    assert high is not None
    assert low < 0.1 < high
    assert examine(_repeated(7000.0)).supported[0].verdict is not Verdict.FASTER


def test_one_run_has_no_interval() -> None:
    """Of one figure a side there is neither interval nor verdict."""
    found = examine(_table(*TWO)).supported
    assert len(found) == 5
    assert all(each.verdict is None and each.effect.low is None for each in found)


def test_all_problems_of_a_table_come_at_once_with_their_lines() -> None:
    """Nothing is read of a table that is damaged, and everything that is wrong is said."""
    text = f"{HEAD},repeat\na,reads,x,1,,\na,reads,1,-5,,\n,reads,1,1,,\na,reads,1\na,r,1,,,\n"
    text += "a,r,1,5,,1\na,r,1,6,,1\n"
    with pytest.raises(TableError) as caught:
        read_table(text, "t.csv")
    assert [line for line, _ in caught.value.problems] == [2, 3, 4, 5, 6, 8]
    assert "t.csv:2: clients: 'x' is not a number" in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        ("tps\n1\n", "no column `configuration`"),
        ("configuration\na\n", "no column of figures"),
        ("configuration,tps,rps\na,1,2\n", "tps has two columns"),
        ("configuration,value\na,2\n", "without one named `metric`"),
        (HEAD, "no row follows"),
        (f'{HEAD}\n"a,', "no CSV"),
        (f"{HEAD}\na\0,r,1,1,1", "a byte of 0"),
    ],
)
def test_what_is_no_table_is_refused(text: str, told: str) -> None:
    """With what is wrong in a sentence."""
    with pytest.raises(TableError) as caught:
        read_table(text, "t.csv")
    assert told in caught.value.message


def test_names_and_separators_of_others_are_understood() -> None:
    """Semicolons, a byte order mark, thousands, other names of columns."""
    table = read_table('\ufeffEnvironment;Command;Clients;RPS\nx;SET;20;"7,696"\n', "t.csv")
    assert table.rows[0].figure("tps") == parse_printed("7696")
    assert (table.rows[0].configuration, table.rows[0].clients) == ("x", 20)


def test_a_column_that_is_not_known_is_told_with_a_proposal() -> None:
    """A slip is not passed over in silence."""
    table = read_table("configuration,tps,latncy_mean_ms\na,1,2\n", "t.csv")
    assert len(table.unread) == 1
    assert "latency_mean_ms" in table.unread[0]


def test_formulas_and_escapes_are_inert() -> None:
    """What a spreadsheet would compute is marked as text; what steers a terminal is shown."""
    hostile = "=HYPERLINK(1)"
    table = read_table(f"configuration,workload,tps\n{hostile},\x1b]0;x\x07,5\n", "t.csv")
    written = table_text(table.rows)
    assert f"'{hostile}" in written
    assert read_table(written, "t.csv").rows[0].configuration == hostile
    shown = render_terminal(
        examination_document(examine(published_tables([table])), "\x1b[31m"), whole=True
    )
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_a_table_is_written_as_it_was_read() -> None:
    """All columns of figures and names come back."""
    head = "configuration,workload,clients,repeat,block,statistic,tps,latency_mean_ms,unit,seconds"
    text = f"{head}\na,r,10,1,2,mean,1000.5,9.99,request,60\n"
    assert table_text(read_table(text, "t.csv").rows) == text


@pytest.mark.parametrize(
    "text", ["x = 1", f"x = {'9' * 5000}", "[[claims]]\nid = 3", "= =", "[[claims]]\n"]
)
def test_claims_that_are_none_are_refused(text: str) -> None:
    """With a sentence, never a traceback."""
    with pytest.raises(InputError):
        read_claims(text, "claims.toml")


@pytest.mark.parametrize("formula", ["1 +", "(1", "1 / 0", "{none}", "[tps]", "1 ? 2", "(" * 99])
def test_a_formula_that_gives_nothing_is_no_evidence(formula: str) -> None:
    """What cannot be computed is said of the claim."""
    examined = examine(_claims(f'kind="sum"\nname="x"\nformula="{formula}"\nunit=""\nstated="1"'))
    assert examined.claims[0].grade is Grade.NO_EVIDENCE


def test_a_cell_of_a_table_stands_in_a_formula() -> None:
    """Metric, workload, configuration, clients."""
    body = 'kind="sum"\nname="x"\nformula="[tps reads a 50] * 2"\nunit=""\nstated="13962"'
    assert examine(_claims(body)).claims[0].grade is Grade.FOLLOWS


def test_printed_figures_are_ranges() -> None:
    """The last digit is rounded; a change is what it multiplies by."""
    figure = parse_printed("7.48")
    assert (figure.low, figure.high) == pytest.approx((7.475, 7.485))
    assert parse_printed("849e6").high == pytest.approx(849.5e6)
    assert parse_ratio("-75.8%").value == pytest.approx(0.242)
    assert parse_ratio("14.3x").low == pytest.approx(14.25)
    for wrong in ("", "x", "1e99", "1" * 40, "٣", "inf", "nan"):
        with pytest.raises(InputError):
            parse_printed(wrong)


def test_programs_read_the_same() -> None:
    """Each claim and note is in the JSON, with its verdict."""
    told = examination_json(examine(_claims(_change('["+15%"]'))))
    assert told["kind"] == "claims"
    assert isinstance(told["claims"], list)
    assert told["claims"][0]["verdict"] == Grade.CONTRADICTS.value  # type: ignore[index,call-overload]


def test_the_columns_have_names_of_their_own() -> None:
    """No name leads to two columns."""
    names = [name for column in COLUMNS for name in (column.name, *column.also)]
    assert len(names) == len(set(names))
