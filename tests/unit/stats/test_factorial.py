"""What is fitted: effects of factors, costs of statements, and how latencies changed."""

from itertools import combinations as subsets
from itertools import product

import numpy as np
import pytest

from steelyard.stats import factorial as designs
from steelyard.stats.statements import change_of_waits, fit_statements


@pytest.mark.parametrize(
    ("factors", "size", "resolution"),
    [(1, 2, None), (2, 4, None), (3, 8, None), (4, 8, 4), (5, 16, 5), (6, 16, 4), (7, 16, 4)],
)
def test_each_number_of_factors_has_its_design(
    factors: int, size: int, resolution: int | None
) -> None:
    """Size and resolution are the method's; the combination of all first levels comes first."""
    design = designs.factorial_design(factors)
    assert len(set(design.combinations)) == len(design.combinations) == size
    assert design.resolution == resolution
    assert design.combinations[0] == (0,) * factors


@pytest.mark.parametrize("factors", range(1, 8))
def test_main_effects_are_clear_of_one_another(factors: int) -> None:
    """Every factor is at its second level in half of the combinations, of each other's too."""
    signs = 2 * np.array(designs.factorial_design(factors).combinations) - 1
    assert np.array_equal(signs.T @ signs, len(signs) * np.eye(factors))


@pytest.mark.parametrize("factors", [4, 5, 6, 7])
def test_the_words_are_the_effects_that_never_change(factors: int) -> None:
    """By brute force over all effects: constant ones are the words, and there are no others."""
    design = designs.factorial_design(factors)
    signs = 2 * np.array(design.combinations) - 1
    constant = {
        effect
        for size in range(1, factors + 1)
        for effect in subsets(range(factors), size)
        if len(set(signs[:, effect].prod(axis=1))) == 1
    }
    assert set(design.words) == constant
    assert len(design.words) == 2**factors // len(design.combinations) - 1


@pytest.mark.parametrize("factors", [4, 5, 6, 7])
def test_aliases_are_the_columns_that_look_alike(factors: int) -> None:
    """By brute force: two effects are aliases exactly when their signs agree up to one sign."""
    design = designs.factorial_design(factors)
    signs = 2 * np.array(design.combinations) - 1
    effects = [e for size in (1, 2, 3) for e in subsets(range(factors), size)]
    for effect in effects:
        column = signs[:, effect].prod(axis=1)
        alike = {
            other
            for other in effects
            if other != effect and abs(column @ signs[:, other].prod(axis=1)) == len(signs)
        }
        assert {a for a in designs.aliases(effect, design.words) if len(a) <= 3} == alike


def test_confounded_synergies() -> None:
    """Four factors: three groups of two; five: none; seven: each pair stands with two others."""
    words = designs.factorial_design(4).words
    groups = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
    assert designs.confounded_synergies(4, words) == groups
    assert designs.confounded_synergies(5, designs.factorial_design(5).words) == ()
    assert designs.confounded_synergies(3, ()) == ()
    seven = designs.confounded_synergies(7, designs.factorial_design(7).words)
    assert [len(group) for group in seven] == [3] * 7
    assert sorted(pair for group in seven for pair in group) == [*subsets(range(7), 2)]


def test_more_factors_are_refused() -> None:
    """Neither none nor eight factors have a design."""
    for factors in (0, 8):
        with pytest.raises(ValueError, match="1 to 7"):
            designs.factorial_design(factors)


def test_effects_are_exact_without_noise() -> None:
    """Main effects, synergies, added alone, removed last and total are the model's own terms."""
    combinations = designs.factorial_design(3).combinations
    y = np.array([0.10 * a + 0.02 * c + 0.04 * a * c for a, _, c in combinations])
    effects = {
        0.12: designs.main_effect(combinations, 0),
        0.04: designs.main_effect(combinations, 2),
        0.10: designs.added_alone(combinations, 0),
        0.02: designs.added_alone(combinations, 2),
        0.14: designs.removed_last(combinations, 0),
        0.06: designs.removed_last(combinations, 2),
        0.16: designs.total(combinations),
    }
    for expected, weights in effects.items():
        assert weights @ y == pytest.approx(expected, abs=1e-12)
    assert designs.main_effect(combinations, 1) @ y == pytest.approx(0.0, abs=1e-12)
    assert designs.synergy(combinations, 0, 2) @ y == pytest.approx(0.04, abs=1e-12)
    assert designs.synergy(combinations, 0, 1) @ y == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("factors", range(1, 8))
def test_the_level_of_a_block_cancels(factors: int) -> None:
    """Every effect's weights sum to zero, so that what is common to a block drops out."""
    combinations = designs.factorial_design(factors).combinations
    weights = [designs.main_effect(combinations, i) for i in range(factors)]
    weights += [designs.synergy(combinations, *pair) for pair in subsets(range(factors), 2)]
    assert max(abs(w.sum()) for w in weights) < 1e-12


def test_synergies_vary_twice_as_much_as_main_effects() -> None:
    """The sum of squared weights is four times as large: the interval is twice as wide."""
    for factors in range(2, 8):
        combinations = designs.factorial_design(factors).combinations
        main, pair = designs.main_effect(combinations, 0), designs.synergy(combinations, 0, 1)
        assert pair @ pair == pytest.approx(4 * main @ main)


def test_a_combination_that_is_not_measured() -> None:
    """A fraction has no combination of one factor alone: asking for its effect is an error."""
    combinations = designs.factorial_design(4).combinations
    with pytest.raises(ValueError, match="not in"):
        designs.added_alone(combinations, 0)


def test_ladder_and_ablation() -> None:
    """One more with every rung; all, then all without each one."""
    assert designs.ladder(3) == ((0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1))
    assert designs.ablation(3) == ((1, 1, 1), (0, 1, 1), (1, 0, 1), (1, 1, 0))
    assert set(designs.ladder(2)) < set(product((0, 1), repeat=2))
    last = designs.removed_last(designs.ablation(3), 1)
    assert list(last) == [1.0, 0.0, -1.0, 0.0]


STATEMENTS, COMMITS = np.array([1.0, 5.0, 7.0]), np.array([0.0, 1.0, 1.0])


def test_the_published_latencies_give_the_published_fit() -> None:
    """1.34, 7.48 and 10.10 ms are 1.32 ms per statement and 0.87 ms per commit, within 0.02 ms."""
    fit = fit_statements(np.array([[1.34, 7.48, 10.10]]), STATEMENTS, COMMITS)
    assert fit.per_statement == pytest.approx([1.32])
    assert fit.per_commit == pytest.approx([0.87])
    assert fit.residual == pytest.approx(0.02)


def test_costs_are_found_block_by_block() -> None:
    """Latencies made of known costs give them back, each block its own, without a miss."""
    a, b = np.array([0.1, 0.2]), np.array([2.0, 0.5])
    latency = a[:, None] * STATEMENTS + b[:, None] * COMMITS
    fit = fit_statements(latency, STATEMENTS, COMMITS)
    assert fit.per_statement == pytest.approx(a)
    assert fit.per_commit == pytest.approx(b)
    assert fit.residual == pytest.approx(0.0, abs=1e-12)


def test_work_that_no_script_shares_is_a_miss() -> None:
    """A script that takes longer than its statements and its commit leaves a residual."""
    latency = np.array([[0.1, 1.5, 2.9]])
    assert fit_statements(latency, STATEMENTS, COMMITS).residual > 0.1


@pytest.mark.parametrize(
    ("statements", "commits"), [([1, 5], [0, 1]), ([1, 5, 7], [1, 5, 7]), ([1, 1, 1], [0, 0, 0])]
)
def test_what_cannot_be_told_apart_is_refused(statements: list[int], commits: list[int]) -> None:
    """Two scripts, or scripts that differ in one thing alone, give no fit."""
    latency = np.ones((4, len(statements)))
    with pytest.raises(ValueError, match="three scripts"):
        fit_statements(latency, np.array(statements, float), np.array(commits, float))


STATEMENTS = np.array([1.0, 5.0, 7.0])


def latencies(each: float, commit: float) -> np.ndarray:
    """Return latencies of three scripts that are made of these costs."""
    return each * STATEMENTS + commit * np.array([0.0, 1.0, 1.0])


def test_the_published_step_took_the_same_from_every_wait() -> None:
    """0.9 ms from each statement, 0.94 from the read-only one, 1.2 from the commit."""
    before, after = np.array([1.34, 7.48, 10.10]), np.array([0.40, 1.81, 2.63])
    change = change_of_waits(before, after, STATEMENTS)
    assert change.per_statement == pytest.approx(-0.90)
    assert change.read_only == pytest.approx(-0.94)
    assert change.per_commit == pytest.approx(-1.17)
    assert change.is_alike


def test_costs_that_changed_are_found() -> None:
    """Latencies made of known costs give back their differences."""
    change = change_of_waits(latencies(0.2, 2.0), latencies(0.5, 1.5), STATEMENTS)
    assert change.per_statement == pytest.approx(0.3)
    assert change.per_commit == pytest.approx(-0.5)
    assert change.is_alike


@pytest.mark.parametrize("read_only", [0.74, 1.26, -1.0, 0.0])
def test_a_read_only_statement_that_changed_otherwise_is_not_alike(read_only: float) -> None:
    """By a quarter of the others or more, the other way, or not at all: work, not waiting."""
    before = latencies(2.0, 1.0)
    after = before + np.array([read_only, 5.0, 7.0])
    assert not change_of_waits(before, after, STATEMENTS).is_alike


@pytest.mark.parametrize("read_only", [0.76, 1.24])
def test_a_read_only_statement_within_a_quarter_is_alike(read_only: float) -> None:
    """The other side of the threshold."""
    before = latencies(2.0, 1.0)
    after = before + np.array([read_only, 5.0, 7.0])
    assert change_of_waits(before, after, STATEMENTS).is_alike


def test_scripts_of_equally_many_statements_are_refused() -> None:
    """Their difference says nothing of a statement."""
    with pytest.raises(ValueError, match="equally many"):
        change_of_waits(np.ones(3), np.ones(3), np.array([1.0, 5.0, 5.0]))
