"""Factors, ladders and ablations: what a file may say, and which configurations they become."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, only_problem
from test_validation import errors

from steelyard.campaign.file.inheritance import combination_names
from steelyard.core.experiment import Attribution, AttributionKind, Experiment, Factor
from steelyard.stats import factorial

HEAD = SMALL[: SMALL.index("configurations")]
HUGE = 'huge-pages: {"off": {postgres: {huge_pages: "off"}}, "on": {postgres: {huge_pages: "on"}}}'
BUFFERS = (
    "buffers: {128MB: {postgres: {shared_buffers: 128MB}}, 2GB: {postgres: {shared_buffers: 2GB}}}"
)
COMMIT = 'commit: {postgres: {synchronous_commit: ["on", "off"]}}'
PROTOCOL = "statements: {simple: , prepared: {protocol: prepared}}"


def given(*factors: str, kind: str = "factors", after: str = "") -> str:
    """Return an experiment with these factors, one per line from line 8."""
    lines = "".join(f"  {factor}\n" for factor in factors)
    return f"{HEAD}{kind}:\n{lines}{after}"


def settings(experiment: Experiment) -> dict[str, dict[str, str]]:
    """Return what each configuration asks for."""
    return {t.name: {s.name: s.value for s in t.settings} for t in experiment.configurations}


def test_two_factors_become_four_configurations() -> None:
    """All combinations, the baseline first, named by what is at the second level."""
    experiment = load(given(HUGE, BUFFERS)).experiment
    assert settings(experiment) == {
        "default": {"huge_pages": "off", "shared_buffers": "128MB"},
        "buffers": {"huge_pages": "off", "shared_buffers": "2GB"},
        "huge-pages": {"huge_pages": "on", "shared_buffers": "128MB"},
        "huge-pages+buffers": {"huge_pages": "on", "shared_buffers": "2GB"},
    }
    assert experiment.baseline == "default"
    assert experiment.attribution == Attribution(
        kind=AttributionKind.FACTORS,
        factors=(
            Factor(name="huge-pages", first="off", second="on"),
            Factor(name="buffers", first="128MB", second="2GB"),
        ),
        combinations=((0, 0), (0, 1), (1, 0), (1, 1)),
    )


def test_a_ladder_and_an_ablation() -> None:
    """One after another, and all but one: the names say which."""
    ladder = load(given(HUGE, BUFFERS, COMMIT, kind="ladder")).experiment
    rungs = ["default", "huge-pages", "huge-pages+buffers", "huge-pages+buffers+commit"]
    assert list(settings(ladder)) == rungs
    ablation = load(given(HUGE, BUFFERS, kind="ablation")).experiment
    assert settings(ablation) == {
        "all": {"huge_pages": "on", "shared_buffers": "2GB"},
        "without-huge-pages": {"huge_pages": "off", "shared_buffers": "2GB"},
        "without-buffers": {"huge_pages": "on", "shared_buffers": "128MB"},
    }
    assert (ladder.baseline, ablation.baseline) == ("default", "all")


@pytest.mark.parametrize(
    ("factors", "configurations", "resolution"),
    [(1, 2, None), (3, 8, None), (4, 8, 4), (5, 16, 5), (7, 16, 4)],
)
def test_more_factors_become_a_fraction(
    factors: int, configurations: int, resolution: int | None
) -> None:
    """The design is the one for that number, and the baseline is among its combinations."""
    experiment = load(
        given(*[f"a{n}: {{postgres: {{my.a{n}: [1, 2]}}}}" for n in range(factors)])
    ).experiment
    assert len(experiment.configurations) == configurations
    assert experiment.attribution is not None
    assert experiment.attribution.resolution == resolution
    assert experiment.configuration("default").settings[0].value == "1"


def test_what_is_common_stands_in_one_configuration() -> None:
    """Every combination has it, and the baseline is called by its name."""
    after = "configurations:\n  server: {target: {server: '15'}, postgres: {work_mem: 8MB}}\n"
    experiment = load(given(HUGE, PROTOCOL, after=after + "baseline: server\n")).experiment
    assert experiment.baseline == experiment.configurations[0].name == "server"
    assert {t.target.server for t in experiment.configurations} == {"15"}
    assert all(asked["work_mem"] == "8MB" for asked in settings(experiment).values())
    assert [t.protocol for t in experiment.configurations] == [None, "prepared"] * 2


def test_the_short_form_is_two_levels_named_by_the_values() -> None:
    """It says the same as the long form."""
    long = 'commit: {"on": {postgres: {synchronous_commit: "on"}}'
    long += ', "off": {postgres: {synchronous_commit: "off"}}}'
    assert load(given(COMMIT)).experiment == load(given(long)).experiment


def test_long_names_are_cut_all_alike() -> None:
    """Names of combinations stay within 40 characters, differ, and follow from the file alone."""
    names = ["checkpoint-timeout", "checkpoint-target", "wal-compression", "huge-pages"]

    def named(factors: list[str]) -> tuple[str, ...]:
        attribution = Attribution(
            kind=AttributionKind.LADDER,
            factors=tuple(Factor(name=name, first="a", second="b") for name in factors),
            combinations=factorial.ladder(len(factors)),
        )
        return combination_names(attribution, "default")

    cut = named(names[1:])
    assert cut[-1] == "checkpoint-tar+wal-compressio+huge-pages"
    assert named(names)[-1] == "f1+f2+f3+f4"
    assert named([f"checkpoint-{n}-that-is-long" for n in range(5)])[-1] == "f1+f2+f3+f4+f5"
    for made in (cut, named(names)):
        assert max(map(len, made)) <= 40
        assert len(set(made)) == len(made)


def test_set_reaches_levels_and_short_forms() -> None:
    """A level with a dot in its name, a setting with one, and the pair of a short form."""
    costs = 'costs: {"4": {postgres: {my.cost: 4}}, "1.1": {postgres: {my.cost: 1.1}}}'
    text = given(costs, COMMIT)

    def after(override: str) -> dict[str, str]:
        return settings(load(text, Path("/nonexistent"), override).experiment)["costs+commit"]

    assert after("factors.costs.1.1.postgres.my.cost=2")["my.cost"] == "2"
    changed = after("factors.commit.postgres.synchronous_commit=[local, off]")
    assert changed["synchronous_commit"] == "off"


def test_a_problem_of_a_combination_is_placed_where_it_is_written() -> None:
    """What a server says of a value is found in the level, and else in the common configuration."""
    after = "configurations:\n  default: {postgres: {work_mem: 8MB}}\n"
    loaded = load(given(HUGE, BUFFERS, after=after))
    for name, setting, line in [
        ("huge-pages+buffers", "shared_buffers", 9),
        ("huge-pages+buffers", "huge_pages", 8),
        ("buffers", "work_mem", 11),
        ("default", "work_mem", 11),
    ]:
        place = ("configurations", name, "postgres", setting)
        assert loaded.problem(place, "refused").line == line


@pytest.mark.parametrize("kind", list(AttributionKind))
def test_editors_accept_them(kind: AttributionKind) -> None:
    """The schema takes the long and the short form, and no third level."""
    assert errors(given(HUGE, COMMIT, PROTOCOL, kind=kind.value)) == []
    assert errors(given("a: {x: , y: , z: }", kind=kind.value))
    assert errors(given("a: {postgres: {jit: [on]}}", kind=kind.value))
    assert errors(given("a: {x: {bogus: 1}, y: }", kind=kind.value))


@pytest.mark.parametrize("settings", ["{work_mem: 8MB}", "{work_mem: 8MB, jit: off}"])
def test_one_value_of_a_short_factor_is_told_as_that(settings: str) -> None:
    """Its settings are no keys of a level that is called like their layer."""
    told = only_problem(given(f"memory: {{postgres: {settings}}}"))
    assert "a factor has exactly two levels, and there is 1 (Write two values as in" in told
