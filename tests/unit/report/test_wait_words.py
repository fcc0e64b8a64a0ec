"""What reports and ``explain`` say of wake-ups and memory distance."""

from dataclasses import replace

import pytest

from fakes import analyses, reasons, single_clients
from steelyard.answers.reasons.section import Choice, explain_document, explain_json
from steelyard.answers.report import summary
from steelyard.answers.statements.section import (
    WAITS_TITLE,
    WaitCause,
    WaitReasoning,
    statement_section,
    wait_blocks,
    waits_json,
    waits_of,
)
from steelyard.core.findings import Estimate
from steelyard.core.schedule import Ceiling, CeilingKind
from steelyard.report.document import BulletList

WAITING = WaitReasoning(
    baseline="default",
    configuration="fitted",
    cause=WaitCause.WAITING,
    per_statement_s=Estimate(value=-1.0e-3, low=-1.1e-3, high=-0.9e-3),
    cpu_s=(-0.02e-3, 0.01e-3),
    run_queue_s=-0.3e-3,
)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (WAITING, "of which at most 2.0 % is CPU time, and -0.300 ms is the queue for a CPU"),
        (WAITING, "the network, and not distance of memory."),
        (
            replace(WAITING, cause=WaitCause.CPU, cpu_s=(-0.9e-3, -0.6e-3), run_queue_s=None),
            "of which 60.0 % to 90.0 % is CPU time; so it is mainly work of the CPU",
        ),
        (
            replace(WAITING, cause=WaitCause.BOTH, cpu_s=(-0.4e-3, -0.3e-3)),
            "so part of it is waiting, and part work",
        ),
        (
            replace(WAITING, cause=WaitCause.UNDECIDED, cpu_s=(-2.0e-3, 1.0e-3)),
            "so these runs do not tell whether it is waiting or work of the CPU",
        ),
        (
            replace(WAITING, one_node=True),
            "one memory node, so none of it is distance of memory, unless a hypervisor",
        ),
        (replace(WAITING, one_node=False), "and not distance of memory."),
        (
            replace(WAITING, cause=WaitCause.UNKNOWN, cpu_s=None, missing="no run was watched"),
            "how much of it is CPU time is not known (no run was watched).",
        ),
    ],
)
def test_each_cause_has_its_words(told: WaitReasoning, words: str) -> None:
    """With the share that CPU time can be at most, and the queue where it is known."""
    (block,) = wait_blocks((told,))
    assert words in block.items[0]
    assert block.items[0].startswith("fitted against default: each statement -1.00 [-1.10, -0.900]")


def test_suspects_are_named_once_and_only_where_something_waits() -> None:
    """Two comparisons share a machine; where all is work of the CPU no wake-up is suspected."""
    told = replace(WAITING, suspects=("idle CPUs enter C6",))
    other = replace(told, configuration="other")
    _, suspects = wait_blocks((told, other))
    assert suspects.items == ("idle CPUs enter C6",)
    assert len(wait_blocks((replace(told, cause=WaitCause.CPU, cpu_s=(-0.9e-3, -0.6e-3)),))) == 1
    (program,) = waits_json((told,))
    assert isinstance(program, dict)
    assert program["suspects"] == ["idle CPUs enter C6"]


def test_the_report_reasons_beside_the_fit() -> None:
    """A list of its own; none where no statement surely changed."""
    analysis = single_clients.statements().with_answer(waits_of, (WAITING,))
    (section,) = statement_section(analysis)
    leads = [block.lead for block in section.blocks if isinstance(block, BulletList)]
    assert sum(WAITS_TITLE in lead for lead in leads) == 1
    (plain,) = statement_section(single_clients.statements())
    assert not any(WAITS_TITLE in b.lead for b in plain.blocks if isinstance(b, BulletList))


def test_the_summary_has_the_reasoning_where_there_is_one() -> None:
    """Cause, range of CPU time and queue in seconds; the key is absent without a sure change."""
    told = summary(single_clients.statements().with_answer(waits_of, (WAITING,)))["statements"]
    assert isinstance(told, dict)
    assert told["waits"] == [
        {
            "baseline": "default",
            "configuration": "fitted",
            "cause": "waiting",
            "per_statement_s": {"estimate": -1.0e-3, "low": -1.1e-3, "high": -0.9e-3},
            "cpu_s": [-0.02e-3, 0.01e-3],
            "run_queue_s": -0.3e-3,
            "missing": None,
            "one_memory_node": None,
        }
    ]
    plain = summary(single_clients.statements())["statements"]
    assert isinstance(plain, dict)
    assert "waits" not in plain
    assert "statements" not in summary(analyses.quick())


def test_explain_has_a_section_of_its_own() -> None:
    """With the ping-pong of the place beside it; a chosen cell is not about all three scripts."""
    probe = Ceiling(kind=CeilingKind.PING_PONG, subject="two CPUs", latency_s=0.04e-3)
    analysis = replace(reasons.explained(), ceilings=(probe,)).with_answer(waits_of, (WAITING,))
    found = {section.anchor: section for section in explain_document(analysis, Choice()).sections}
    reasoning, apart = found["waits"].blocks
    assert isinstance(reasoning, BulletList)
    assert isinstance(apart, BulletList)
    assert apart.items == ("ping-pong of two processes, two CPUs: 0.040 ms",)
    assert list(found)[-1] == "watching"
    chosen = explain_document(analysis, Choice(workload="reads")).sections
    assert "waits" not in [section.anchor for section in chosen]
    plain = explain_document(reasons.explained(), Choice()).sections
    assert "waits" not in [section.anchor for section in plain]


def test_explain_tells_programs_too() -> None:
    """An empty list where there is nothing, also without evidence."""
    analysis = reasons.explained().with_answer(waits_of, (WAITING,))
    (told,) = explain_json(analysis, Choice())["waits"]  # type: ignore[misc, union-attr]
    assert told["cause"] == "waiting"  # type: ignore[call-overload, index]
    assert explain_json(reasons.explained(), Choice())["waits"] == []
    assert explain_json(analyses.quick(), Choice())["waits"] == []
