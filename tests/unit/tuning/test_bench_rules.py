"""Rules of what was compared and how: on both sides of each."""

from dataclasses import replace
from typing import Any

import pytest

from steelyard.core.linux import LinuxFacts, PingPong
from steelyard.core.stack import BenchFacts, JourneyStep, PostgresFacts, ScriptLatencies, StackFacts
from steelyard.core.wording import GIB
from support.judged_rules import HOLDS, NOTHING, rows_of, said


def stack(memory_bytes: int | None = 8 * GIB, buffers: str = "2GB", **bench: Any) -> StackFacts:
    """Return the facts of a comparison on a machine of two CPUs with this memory."""
    return StackFacts(
        linux=LinuxFacts(memory_bytes=memory_bytes, cpus=(0, 1)),
        postgres=PostgresFacts(settings={"shared_buffers": buffers}),
        bench=BenchFacts(**bench),
    )


def made(each: float, commit: float, read_only: float | None = None) -> ScriptLatencies:
    """Return latencies that are made of these costs in milliseconds."""
    return ScriptLatencies(
        select_only_s=(each if read_only is None else read_only) / 1e3,
        simple_update_s=(5 * each + commit) / 1e3,
        tpcb_like_s=(7 * each + commit) / 1e3,
    )


REFERENCE = {"reference_memory_bytes": 8 * GIB, "reference_cpus": 2}


# What each rule says of facts, or its state.
SAID = {
    # Within a tenth, more as well as less; both must be known to be equal.
    "BEN001": [
        (stack(**REFERENCE), HOLDS),
        (stack(8 * GIB + 8 * GIB // 10, **REFERENCE), HOLDS),
        (stack(9 * GIB, **REFERENCE), "may use 9.0 GiB, what it is compared with has 8.0 GiB"),
        (stack(7 * GIB, **REFERENCE), "may use 7.0 GiB"),
        (stack(None, **REFERENCE), NOTHING),
        (stack(), NOTHING),
        (stack(**{**REFERENCE, "reference_cpus": 4}), "may use 2 CPUs, what it is compared with"),
        (stack(**{**REFERENCE, "reference_cpus": 1}), "compared with has 1"),
        (stack(reference_memory_bytes=8 * GIB), NOTHING),  # equal memory alone is no pass
        (stack(9 * GIB, reference_memory_bytes=8 * GIB), "may use 9.0 GiB"),
        (stack(reference_cpus=2), NOTHING),
        (replace(stack(**REFERENCE), linux=LinuxFacts(memory_bytes=8 * GIB)), NOTHING),
    ],
    # Two at once are attributed to neither.
    "BEN002": [
        (
            stack(
                steps=(JourneyStep(name="a", knobs=("governor",)), JourneyStep(name="b", knobs=()))
            ),
            HOLDS,
        ),
        (
            stack(steps=(JourneyStep(name="a", knobs=("governor", "pinning")),)),
            "a changes 2 things at once: governor, pinning",
        ),
        (stack(), NOTHING),
    ],
    # 15.1 MiB per unit of scale.
    "BEN003": [
        (stack(scale_factor=136), HOLDS),  # 2053.6 MiB
        (stack(scale_factor=135), "scale 135 is 2.0 GiB, shared_buffers 2.0 GiB"),
        (stack(buffers="much", scale_factor=1), NOTHING),
        (stack(), NOTHING),
    ],
}


@pytest.mark.parametrize(("code", "facts", "told"), rows_of(SAID))
def test_a_rule_says_what_is_wrong(code: str, facts: StackFacts, told: str) -> None:
    """On both sides of its limit, and where there is nothing to judge."""
    assert told in said(code, facts)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (made(1.3, 0.9), made(0.4, 0.0), "every statement of the writing scripts changed alike"),
        (made(0.4, 0.0), made(1.3, 0.9), "0.40 ms to 1.30 ms (+0.90 ms)"),
        # A commit that became cheaper is storage; statements stayed what they were.
        (made(0.2, 2.0), made(0.2, 0.5), HOLDS),
        # The read-only statement stayed while those that write changed: work, not waiting.
        (made(1.3, 0.9, 0.4), made(0.4, 0.9, 0.4), HOLDS),
        # Less than a tenth of a statement, or than 20 µs, is what one run each cannot tell.
        (made(1.3, 0.9), made(1.2, 0.9), HOLDS),
        (made(0.03, 0.1), made(0.015, 0.1), HOLDS),
    ],
)
def test_equal_changes_of_all_statements_are_waits(
    before: ScriptLatencies, after: ScriptLatencies, told: str
) -> None:
    """BEN004: alike at every statement, read-only included, and large enough to be told."""
    assert told in said("BEN004", stack(before=before, after=after))


def test_a_measured_wake_up_stands_beside_the_change() -> None:
    """BEN004: the ping-pong of the same machine says what one takes."""
    facts = stack(before=made(1.3, 0.9), after=made(0.4, 0.0))
    probe = PingPong(same_cpu_s=5e-6, across_s=40e-6)
    probed = replace(facts, linux=LinuxFacts(ping_pong=probe))
    assert "another CPU takes 17.5 µs here" in said("BEN004", probed)
    assert "takes" not in said("BEN004", facts).replace("would take", "")


@pytest.mark.parametrize(
    ("repeats", "told"), [(3, HOLDS), (2, "2 runs each"), (1, "a single run"), (None, NOTHING)]
)
def test_figures_are_repeated(repeats: int | None, told: str) -> None:
    """BEN005: three times or more."""
    assert told in said("BEN005", stack(repeats=repeats))
