"""What a file may say of rates, goals, generators, the capacity and the log."""

import json

import jsonschema
import pytest
from experiment_texts import SMALL, load, problems_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from steelyard.campaign.file.form import experiment_schema
from steelyard.campaign.foresee.forecast import aa_twin
from steelyard.core.experiment import CapacityAsked, Experiment, SwitchCost
from steelyard.core.schedule import LatencyGoal
from steelyard.core.wording import InputError

ONE_CONFIGURATION = SMALL.replace("  other: {extends: default}\n", "")


def offered(loads: str, further: str = "", text: str = SMALL) -> str:
    """Return the small experiment with other loads and further lines."""
    return text.replace("load: {clients: 1, protocol: simple}", f"load: {{{loads}}}") + further


def rates_of(text: str) -> list[tuple[float | None, float | None]]:
    """Return rate and share of every load."""
    return [(each.rate_per_s, each.share) for each in load(text).experiment.loads]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("500", [(500.0, None)]),
        ("0.5", [(0.5, None)]),
        ("2e3", [(2000.0, None)]),
        ("70%", [(None, 0.7)]),
        ("'70 %'", [(None, 0.7)]),
        ("closed", [(None, None)]),
        ("[closed, 500, 70%]", [(None, None), (500.0, None), (None, 0.7)]),
        ("'closed, 70%'", [(None, None), (None, 0.7)]),
    ],
)
def test_rates(written: str, expected: list[tuple[float | None, float | None]]) -> None:
    """A number, a share with its sign, `closed`, or several; in an editor's eyes, too."""
    text = offered(f"clients: 1, rate: {written}")
    assert rates_of(text) == expected
    document = YAML(typ="safe", pure=True).load(text)
    jsonschema.Draft202012Validator(experiment_schema()).validate(document)


def test_every_combination_with_clients_and_threads() -> None:
    """Rates multiply the loads; only open loops have a limit, all have the generators."""
    text = offered(
        "clients: [2, 4], threads: [2, 4], rate: [closed, 50], latency_limit: 100ms, generators: 2"
    )
    loads = load(text).experiment.loads
    assert [(each.clients, each.threads, each.rate_per_s) for each in loads] == [
        (2, 2, None),
        (2, 2, 50.0),
        (4, 2, None),
        (4, 2, 50.0),
        (4, 4, None),
        (4, 4, 50.0),
    ]
    assert {each.latency_limit_s for each in loads if not each.is_open} == {None}
    assert {each.latency_limit_s for each in loads if each.is_open} == {0.1}
    assert {each.generators for each in loads} == {2}


def test_every_generator_has_a_thread() -> None:
    """`threads: auto` is the number of generators where they exceed the CPUs."""
    (only,) = load(offered("clients: 8, generators: 6")).experiment.loads
    assert (only.threads, only.generators) == (6, 6)


@pytest.mark.parametrize(
    ("written", "share", "limit_s"),
    [
        ("p99 < 10ms", 0.99, 0.01),
        ("p99<10ms", 0.99, 0.01),
        ("p99.9 <= 1 s", 0.999, 1.0),
        ("p50 < 250us", 0.5, 0.00025),
        ("p99.99 < 1.5ms", 0.9999, 0.0015),
        ("p95 < 400\u00b5s", 0.95, 0.0004),
    ],
)
def test_goals(written: str, share: float, limit_s: float) -> None:
    """Percentile, limit and unit, spaces or not; shares of the capacity are then tried."""
    experiment = load(f"{SMALL}slo: {written}\n").experiment
    assert experiment.goal == LatencyGoal(share=share, limit_s=pytest.approx(limit_s, rel=1e-12))
    assert [each.share for each in experiment.loads] == [0.5, 0.6, 0.7, 0.8, 0.9]
    asked = load(offered("clients: 1, rate: 100", f"slo: {written}\n")).experiment
    assert [each.rate_per_s for each in asked.loads] == [100.0]


@pytest.mark.parametrize(
    ("loads", "further", "asked"),
    [
        ("clients: 6, rate: 70%", "", CapacityAsked(clients=(1, 2, 4, 6))),
        ("clients: [2, 8], rate: 70%", "", CapacityAsked(clients=(1, 2, 4, 8))),
        ("clients: 1, rate: 70%", "capacity: {}\n", CapacityAsked(clients=(1,))),
        (
            "clients: 8, rate: 70%",
            "capacity: {clients: [8, 2], runs: 4}\n",
            CapacityAsked(clients=(2, 8), runs=4),
        ),
        ("clients: 8, rate: [closed, 100]", "", None),
    ],
)
def test_how_the_capacity_is_found(loads: str, further: str, asked: CapacityAsked | None) -> None:
    """Powers of two up to the most clients, and those; asked or not, only where shares need it."""
    assert load(offered(loads, further)).experiment.capacity == asked


def test_single_passes_take_fixed_rates_only() -> None:
    """Also beside closed loops."""
    single = f"design: single-pass\n{ONE_CONFIGURATION}"
    assert rates_of(offered("clients: 1, rate: [closed, 50]", text=single)) == [
        (None, None),
        (50.0, None),
    ]


@pytest.mark.parametrize(
    ("loads", "further"),
    [
        ("clients: 1, rate: [5, 70%]", ""),
        ("clients: 1", "slo: p99 < 1s\n"),
        ("clients: 1, rate: [closed, 5]", "slo: p99 < 1s\n"),
    ],
)
def test_one_configuration_in_blocks(loads: str, further: str) -> None:
    """Latency at a rate needs no comparison."""
    assert load(offered(loads, further, ONE_CONFIGURATION)).experiment.contenders == ()


_RATES = st.one_of(
    st.just("closed"),
    st.integers(1, 1_000_000).map(str),
    st.floats(0.01, 1e5).map(repr),
    st.integers(1, 99).map(lambda percent: f"{percent}%"),
)


@settings(max_examples=60, deadline=None)
@given(
    rates=st.lists(_RATES, min_size=1, max_size=4, unique_by=lambda text: text.rstrip("%.0")),
    clients=st.lists(st.integers(2, 64), min_size=1, max_size=3, unique=True),
    generators=st.integers(1, 2),
    goal=st.none() | st.sampled_from(["p50 < 1ms", "p99.9<2s"]),
)
def test_the_journal_keeps_them(
    rates: list[str], clients: list[int], generators: int, goal: str | None
) -> None:
    """Any resolved experiment with rates is read back from its JSON as it was."""
    if goal and rates == ["closed"]:
        goal = None
    text = offered(
        f"clients: {clients}, rate: {json.dumps(rates)}, generators: {generators}",
        f"slo: {goal}\n" if goal else "",
    )
    experiment = load(text).experiment
    assert len(experiment.loads) == len(rates) * len(clients)
    assert len(set(experiment.loads)) == len(experiment.loads)
    adapter = TypeAdapter(Experiment)
    assert adapter.validate_json(adapter.dump_json(experiment)) == experiment


_GOAL_PIECES = ["p", "99", ".", "9", " ", "<", "=", "<=", "10", "ms", "us", "s", "%", "p99 < 1ms"]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    text=st.lists(st.sampled_from(_GOAL_PIECES)).map("".join) | st.text(max_size=12),
    key=st.sampled_from(["slo", "load.rate", "load.latency_limit", "capacity.clients"]),
)
def test_any_text_at_these_keys(text: str, key: str) -> None:
    """Whatever stands there ends in an experiment or in problems with a message."""
    problems = problems_of(SMALL, f"{key}={text}")
    assert all(each.message for each in problems)


def test_noise_needs_a_closed_loop() -> None:
    """The A/A twin of open loops would measure their rate; it is refused with the way out."""
    given = load(offered("clients: 2, rate: 100"))
    with pytest.raises(InputError, match="all loads are open loops") as refused:
        aa_twin(given, switch=SwitchCost.SESSION, budget_s=600.0)
    assert "load.rate=closed" in refused.value.hint
    both = load(offered("clients: 2, rate: [closed, 100]", "slo: p99 < 1s\n"))
    twin = aa_twin(both, switch=SwitchCost.SESSION, budget_s=600.0).experiment
    assert (len(twin.loads), twin.goal) == (2, None)


@pytest.mark.parametrize("clients", ["4/4,8/8,12/2", "['4/4', 8/8, '12/2']", "[4/4, 8/8, 12/2]"])
def test_clients_and_threads_in_pairs(clients: str) -> None:
    """A comma list or a list: one load for each pair, not for each combination."""
    text = SMALL.replace("load: {clients: 1, protocol: simple}", f"load:\n  clients: {clients}")
    loads = load(text).experiment.loads
    assert [(each.clients, each.threads) for each in loads] == [(4, 4), (8, 8), (12, 2)]
    assert all(type(each.clients) is int for each in loads)


def test_pairs_beside_a_number_that_has_its_threads_by_itself() -> None:
    """As `auto` does for what is not paired."""
    loads = load(
        SMALL.replace("{clients: 1, protocol: simple}", "{clients: [1, 8/2]}")
    ).experiment.loads
    assert [(each.clients, each.threads) for each in loads] == [(1, 1), (8, 2)]
