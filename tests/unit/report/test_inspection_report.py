"""The report of an inspection: every rule in one of three states, every fact with its source."""

import pytest

from steelyard.answers.stack.inspection import (
    Inspection,
    fact_tables,
    inspection_document,
    inspection_json,
    shown,
)
from steelyard.core import stack
from steelyard.core.findings import Severity, State
from steelyard.core.linux import BlockDevice, LinuxFacts, NumaNode, PagePool, PoolUser
from steelyard.core.wording import GIB, MIB
from steelyard.report.document import Table
from steelyard.report.terminal import render_terminal
from support.recorded_stacks import published


def a_rule(
    code: str, state: State, severity: Severity = Severity.WARNING, **more: object
) -> stack.JudgedRule:
    """Return a rule of which this came."""
    given = {"layers": ("linux",), "title": f"title of {code}", "why": "it costs", **more}
    return stack.JudgedRule(
        code=code, state=state, severity=severity, remedy="set it", source="a page", **given
    )


JUDGED = (
    a_rule("A1", State.VIOLATED, Severity.INFO, messages=("a trifle",)),
    a_rule("A2", State.VIOLATED, Severity.ERROR, messages=("one thing", "another")),
    a_rule("A3", State.VIOLATED, messages=("read-ahead is 8.0 MiB",)),
    a_rule("A4", State.HOLDS),
    a_rule("A5", State.NOT_APPLICABLE, missing=("linux.governor: no cpufreq here",)),
    a_rule("A6", State.NOT_APPLICABLE, missing=("linux.governor: no cpufreq here",)),
    a_rule("A7", State.NOT_APPLICABLE),
)
FACTS = stack.StackFacts(
    linux=LinuxFacts(
        memory_bytes=16 * GIB,
        cpus=(0, 1, 2, 3),
        steal_fraction=0.012,
        swappiness=60,
        siblings=((0, 2), (1, 3)),
        nodes=(
            NumaNode(
                number=0,
                cpus=(0, 1, 2, 3),
                memory_bytes=16 * GIB,
                pools=(PagePool(page_bytes=2 * MIB, total=10, free=4),),
            ),
        ),
        device=BlockDevice(name="vda", kind="virtio", read_ahead_bytes=8 * MIB),
    ),
    domains=(stack.DomainFacts(name="db", vcpus=2, memory_bytes=GIB, vcpu_pins={0: (4, 5)}),),
    postgres=stack.PostgresFacts(version=18, settings={"huge_pages": "on"}),
    origins={
        "linux": stack.Origin(source="/proc"),
        "linux.memory_bytes": stack.Origin(source="the order form", assumed=True),
        "linux.governor": stack.Origin(source="no cpufreq here", visibility=stack.Visibility.NO),
        "linux.ping_pong": stack.Origin(source="not measured", visibility=stack.Visibility.UNKNOWN),
        "linux.dma_latency_s": stack.Origin(source="nobody holds a limit"),
    },
)


def an_inspection() -> Inspection:
    """Return one with every kind of rule."""
    return Inspection(place="this machine", facts=FACTS, judged=JUDGED)


def text_of(inspection: Inspection, *, every: bool = False) -> str:
    """Return what a terminal shows."""
    return render_terminal(inspection_document(inspection, every=every), 120)


def test_problems_come_first_as_state_and_expectation() -> None:
    """The gravest first; below each what was expected, why, remedy and source; facts come last."""
    text = text_of(an_inspection())
    marks = ["Problems", "[ERROR] A2", "[WARN] A3", "[INFO] A1", "Checks", "Facts", "Linux"]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    assert "[WARN] A3: read-ahead is 8.0 MiB\n  Expected: title of A3\n  Because: it costs" in text
    assert "[ERROR] A2: 2 findings\n  - one thing\n  - another\n  Expected: title of A2" in text
    assert text.count("Remedy: set it") == text.count("Source: a page") == 3


def test_facts_are_shown_on_request() -> None:
    """The first screen has problems and counts alone."""
    short = render_terminal(inspection_document(an_inspection(), facts=False), 120)
    assert "[ERROR] A2" in short
    assert "swappiness" not in short


def test_what_is_skipped_is_no_pass_and_says_what_is_missing() -> None:
    """One line has the counts and the facts that most rules lack; with `every`, rule by rule."""
    text = text_of(an_inspection())
    counts = "1 of 7 rules passed, 3 were skipped: linux.governor: no cpufreq here (2); nothing of"
    assert counts in text
    assert "A5" not in text
    every = text_of(an_inspection(), every=True)
    passed, skipped = every.index("Passed"), every.index("Skipped")
    assert passed < every.index("A4: title of A4") < skipped
    for code in ("A5", "A6", "A7"):
        assert every.index(f"{code}: title of {code}") > skipped


def test_all_users_of_a_pool_share_a_row() -> None:
    """Dozens of processes may hold its pages."""
    users = tuple(PoolUser(pid=n, command="postgres", held_bytes=2 * MIB) for n in range(8))
    rows = rows_of(stack.StackFacts(linux=LinuxFacts(pool_users=users)), "Linux")
    assert rows["pool users"][0].startswith("pid 0, postgres, held 2.0 MiB; pid 1")
    assert rows["pool users"][0].endswith("2 more")


def test_the_subtitle_counts_every_violation() -> None:
    """A rule that is violated twice counts twice; programs get the same numbers."""
    text = text_of(an_inspection())
    assert "2 errors, 1 warning, 1 for information\n" in text
    told = inspection_json(an_inspection())
    counts = told["counts"]
    assert isinstance(counts, dict)
    assert [counts[name] for name in ("error", "warning", "info", "holds")] == [2, 1, 1, 1]
    assert set(told) == {"counts", "rules"}  # no key that is never filled


def test_no_problem_and_nothing_judged_are_different() -> None:
    """Without facts no rule holds, and the report does not say that all is well."""
    held, missing = JUDGED[3], JUDGED[6]
    well = Inspection(place="x", facts=stack.StackFacts(), judged=(held, missing))
    assert "No problem was found." in text_of(well)
    blind = Inspection(place="x", facts=stack.StackFacts(), judged=(missing,))
    assert "Nothing was judged" in text_of(blind)
    assert "No problem was found." not in text_of(blind)


def test_facts_have_value_visibility_and_source() -> None:
    """Units in the value; assumed, invisible and unknown facts are marked as such."""
    (linux,) = [b for b in fact_tables(FACTS) if isinstance(b, Table) and b.title == "Linux"]
    rows = {row.cells[0]: row.cells[1:] for row in linux.rows}
    assert rows["memory"] == ("16.0 GiB", "assumed", "the order form")
    assert rows["governor"] == ("not visible", "no", "no cpufreq here")
    assert rows["ping pong"] == ("unknown", "unknown", "not measured")
    assert rows["dma latency"] == ("none", "yes", "nobody holds a limit")
    assert rows["steal"] == ("1.2 %", "yes", "/proc")
    assert rows["siblings"][0] == "2 cores of 2 threads"
    assert rows["nodes"][0] == "0: CPUs 0-3, 16.0 GiB, 10 of 2.0 MiB, 4 free"
    assert rows["device read ahead"][0] == "8.0 MiB"
    assert "scaling driver" not in rows  # nobody said anything of it


def rows_of(facts: stack.StackFacts, title: str) -> dict[str, tuple[str, ...]]:
    """Return the rows of one table by their first cell."""
    (table,) = [b for b in fact_tables(facts) if isinstance(b, Table) and b.title == title]
    return {row.cells[0]: row.cells[1:] for row in table.rows}


def test_a_guess_within_a_fact_is_no_published_fact() -> None:
    """A part of a compound fact has its own origin; a row of several says where one was assumed."""
    guess = stack.Origin(source="it must have one", assumed=True)
    facts = stack.StackFacts(
        kubernetes=stack.KubernetesFacts(
            kubelet=stack.Kubelet(kube_reserved={"cpu": "1"}), pods=(stack.PodFacts(name="a"),)
        ),
        origins={
            "kubernetes": stack.Origin(source="the article"),
            "kubernetes.kubelet.kube_reserved": guess,
            "kubernetes.pods.limits": guess,
        },
    )
    rows = rows_of(facts, "Kubernetes")
    assert rows["kubelet kube reserved"][1:] == ("assumed", "it must have one")
    assert rows["kubelet cpu manager policy"][1:] == ("yes", "the article")
    assert rows["pods"][1] == "assumed"


def test_the_published_reservation_is_shown_as_the_guess_that_it_is() -> None:
    """The reservation of the published kubelet is not printed anywhere."""
    assert rows_of(published(), "Kubernetes")["kubelet kube reserved"][1] == "assumed"


def test_each_virtual_machine_has_its_own_source() -> None:
    """What is said of one field of all of them goes before what is said of one as a whole."""
    vms = tuple(stack.DomainFacts(name=name, vcpus=1, memory_bytes=GIB) for name in ("a", "b"))
    origins = {
        "domains": stack.Origin(source="virsh list --all"),
        "domains.a": stack.Origin(source="virsh dumpxml a"),
        "domains.vcpus": stack.Origin(source="guessed", assumed=True),
    }
    rows = rows_of(stack.StackFacts(domains=vms, origins=origins), "Virtual machines")
    assert rows["a: memory"][2] == "virsh dumpxml a"
    assert rows["b: memory"][2] == "virsh list --all"
    assert rows["a: vcpus"][1:] == ("assumed", "guessed")


def test_a_long_source_is_folded_and_not_cut() -> None:
    """A path that is wider than its column goes on in the next line: it is there to be read."""
    path = "/sys/devices/system/clocksource/clocksource0/available_clocksource/" + "x" * 60
    facts = stack.StackFacts(
        linux=LinuxFacts(swappiness=1), origins={"linux": stack.Origin(source=path)}
    )
    text = text_of(Inspection(place="x", facts=facts, judged=()))
    assert path in "".join(text.split()).replace("\n", "")
    assert "…" not in text


def test_layers_that_are_not_there_say_why() -> None:
    """A row for each, nobody looked at most; a machine of metal is its own hypervisor."""
    text = text_of(an_inspection())
    absent = text[text.index("Layers of which nothing is known") :]
    assert "kubernetes" in absent
    assert "nobody looked" in absent
    assert "linux" not in absent
    metal = stack.StackFacts(hypervisor=FACTS.linux, linux=FACTS.linux)
    assert "This machine is the hypervisor" in text_of(
        Inspection(place="x", facts=metal, judged=())
    )


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("exit_latency_s", 133e-6, "0.13 ms"),
        ("cpu_pressure_fraction", 0.5, "50.0 %"),
        ("balloon", False, "no"),
        ("hugetlbfs", (2 * MIB, GIB), "2.0 MiB, 1.0 GiB"),
        ("settings", {"a": "1"}, "1 setting"),
        ("vcpu_pins", {0: (4, 5), 1: (6,)}, "0 4-5, 1 6"),
        ("features", (), "none"),
        ("governor", "performance", "performance"),
    ],
)
def test_values_are_told_in_the_unit_of_their_name(name: str, value: object, text: str) -> None:
    """Names carry the unit inside, values carry it outside."""
    assert shown(name, value) == text


def test_programs_get_every_rule_with_its_state() -> None:
    """Counts, states, messages and what is missing; nothing is folded."""
    told = inspection_json(an_inspection())
    assert told["counts"] == {"info": 1, "warning": 1, "error": 2, "holds": 1, "not_applicable": 3}
    rules = told["rules"]
    assert isinstance(rules, list)
    assert [rule["code"] for rule in rules] == [rule.code for rule in JUDGED]
    assert rules[4]["state"] == "not applicable"
    assert rules[4]["missing"] == ["linux.governor: no cpufreq here"]
