"""Facts files and recorded stacks are read whole, and what is wrong is told."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from steelyard.core import stack
from steelyard.core.linux import IdleState, LinuxFacts, NumaNode, PingPong
from steelyard.core.stack import StackFacts, Visibility
from steelyard.core.wording import InputError
from steelyard.tuning.facts.file import facts_json, facts_yaml, parse_facts, read_facts, write_facts
from support.recorded_stacks import PUBLISHED, RECOMMENDED, document, published, read, recommended

_TEXTS = st.text(max_size=8)
_CPUS = st.lists(st.integers(0, 64), unique=True, max_size=4).map(lambda cpus: tuple(sorted(cpus)))
_LINUX = st.builds(
    LinuxFacts,
    cpus=st.none() | _CPUS,
    governor=st.none() | _TEXTS,
    balloon=st.none() | st.booleans(),
    memory_bytes=st.none() | st.integers(0, 1 << 40),
    steal_fraction=st.none() | st.floats(0, 1),
    nodes=st.none() | st.builds(NumaNode, number=st.just(0), cpus=_CPUS).map(lambda n: (n,)),
    idle_states=st.none()
    | st.builds(IdleState, name=_TEXTS, exit_latency_s=st.floats(0, 1)).map(lambda state: (state,)),
    ping_pong=st.none() | st.just(PingPong(across_s=11e-6)),
)
_DOMAINS = st.builds(
    stack.DomainFacts,
    name=_TEXTS,
    vcpus=st.integers(1, 8),
    memory_bytes=st.integers(1, 1 << 40),
    vcpu_pins=st.dictionaries(st.integers(0, 7), _CPUS, max_size=2),
)
_FACTS = st.builds(
    stack.StackFacts,
    linux=st.none() | _LINUX,
    hypervisor=st.none() | _LINUX,
    domains=st.none() | _DOMAINS.map(lambda domain: (domain,)),
    kubernetes=st.just(
        stack.KubernetesFacts(
            kubelet=stack.Kubelet(reserved_memory=({"numaNode": "0", "memory": "1Gi"},))
        )
    ),
    postgres=st.builds(
        stack.PostgresFacts, settings=st.none() | st.dictionaries(_TEXTS, _TEXTS, max_size=2)
    ),
    origins=st.dictionaries(
        _TEXTS,
        st.builds(
            stack.Origin,
            source=_TEXTS,
            visibility=st.sampled_from(stack.Visibility),
            assumed=st.booleans(),
        ),
        max_size=2,
    ),
)


@given(facts=_FACTS)
@example(
    facts=stack.StackFacts(postgres=stack.PostgresFacts(settings={"a" * 82: "0\U000100000 0\x7f"}))
)
@example(facts=stack.StackFacts(postgres=stack.PostgresFacts(settings={"a" * 84: "0\x1f0 0 0"})))
def test_what_is_written_is_read_again(facts: stack.StackFacts) -> None:
    """YAML and JSON give back equal facts: nothing is lost, nothing is made up."""
    assert parse_facts(facts_json(facts), "facts.json") == facts
    assert parse_facts(facts_yaml(facts), "facts.yaml") == facts


def test_files_are_written_in_the_form_of_their_name(tmp_path: Path) -> None:
    """JSON where the name ends so, YAML elsewhere; both are read by their content."""
    for name, first in (("facts.json", "{"), ("facts.yaml", "h")):
        path = tmp_path / name
        write_facts(path, published())
        assert path.read_text()[0] == first
        assert read_facts(path) == published()


def test_the_recorded_stacks_are_such_files() -> None:
    """They read as they were meant, comments and all."""
    assert read_facts(PUBLISHED) == published()
    assert read_facts(RECOMMENDED) == recommended()


def test_sizes_and_cpus_may_be_written_as_people_do() -> None:
    """`16GiB` and `0-3,8` are understood where a size and CPUs belong, and only there."""
    facts = parse_facts("linux: {memory_bytes: 16GiB, cpus: '0-3,8'}\n", "facts.yaml")
    assert facts.linux == LinuxFacts(memory_bytes=16 << 30, cpus=(0, 1, 2, 3, 8))
    with pytest.raises(InputError):
        parse_facts("linux: {swappiness: 16GiB}\n", "facts.yaml")


WRONG = """\
linux:
  governer: powersave
  cpus: 3-1
  memory_bytes: [1]
  smt: 1
domains:
  - vcpus: two
origins:
  linux: {source: me, visibility: perhaps}
format: 2
"""


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    """An unknown fact, wrong kinds, what is missing, an unknown word: each at its place."""
    with pytest.raises(InputError) as caught:
        parse_facts(WRONG, "facts.yaml")
    told = caught.value.message.splitlines()
    assert told[0] == "facts.yaml has 9 problems:"
    expected = {
        2: "`governer` (Did you mean `governor`?)",
        3: "`3-1` is not a list of CPUs",
        4: "linux.memory_bytes: `[1]` is not a whole number",
        5: "linux.smt: `1` is not true or false",
        7: "domains.0.vcpus: `two` is not a whole number",
        9: "`perhaps` is none of its words (Known: yes, no, unknown.)",
        10: "format 2 is not known",
    }
    for line, text in expected.items():
        assert any(f":{line}:" in each and text in each for each in told), (line, told)
    for name in ("name", "memory_bytes"):
        assert any(":7:" in each and f"`{name}` is missing" in each for each in told)


@pytest.mark.parametrize("text", ["linux: {", "a: b: c", "\t- x", "linux: &a [*a]", "", "[]", "3"])
def test_what_is_no_facts_file_is_refused(text: str) -> None:
    """Malformed YAML, an alias of itself, nothing, a list: a sentence, never a traceback."""
    with pytest.raises(InputError, match=r"facts\.yaml has 1 problem"):
        parse_facts(text, "facts.yaml")


@given(text=st.text(max_size=80) | st.text(alphabet="linux:{}[]-&*!|>'\"\n 0", max_size=40))
def test_no_text_ends_in_anything_but_facts_or_a_refusal(text: str) -> None:
    """Fuzz: whatever a file holds is facts or an InputError."""
    try:
        assert isinstance(parse_facts(text, "facts.yaml"), stack.StackFacts)
    except InputError as error:
        assert "facts.yaml" in error.message  # noqa: PT017 - either is right


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """The message names it, the hint says how to make one."""
    with pytest.raises(InputError, match="is not there") as caught:
        read_facts(tmp_path / "none.yaml")
    assert "--save" in caught.value.hint


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        ("steal_fraction: .nan", "`nan` is no quantity"),
        ("halt_poll_s: .inf", "`inf` is no quantity"),
        ("steal_fraction: -0.1", "`-0.1` is less than nothing"),
        ("steal_fraction: 5", "`5` is more than the whole"),
        ("memory_bytes: -1", "`-1` is less than nothing"),
        ("memory_bytes: -1GiB", "-1GiB"),
        ("requested_huge_pages: -8", "`-8` is less than nothing"),
    ],
)
def test_what_no_fact_can_be_is_refused(fact: str, told: str) -> None:
    """A rule would compare it and hold: steal that is no number is not less than 1 %."""
    with pytest.raises(InputError) as caught:
        parse_facts(f"format: 1\nlinux:\n  {fact}\n", "f.yaml")
    assert told in caught.value.message
    assert "f.yaml:3:" in caught.value.message


def lost(written: Any, kept: Any, path: str = "") -> list[str]:
    """Return the paths of what a file says and the model does not."""
    if isinstance(written, dict):
        return [
            each
            for key, value in written.items()
            for each in lost(value, (kept or {}).get(key), f"{path}.{key}")
        ]
    if isinstance(written, list) and isinstance(kept, list | tuple) and len(written) == len(kept):
        return [
            each for i, item in enumerate(written) for each in lost(item, kept[i], f"{path}.{i}")
        ]
    return [] if written == kept else [path]


@pytest.mark.parametrize("path", [PUBLISHED, RECOMMENDED], ids=lambda path: path.stem)
def test_nothing_in_the_file_is_lost(path: Path) -> None:
    """A misspelt key would be ignored in silence and its rule would not apply."""
    kept = TypeAdapter(StackFacts).dump_python(read(path))
    assert lost(document(path), kept) == []


def test_guesses_are_marked() -> None:
    """What the articles do not print is an assumption, what they print is none."""
    assert published().origin("hypervisor.nodes").assumed
    assert published().origin("hypervisor.idle_states").assumed
    assert not published().origin("postgres.settings").assumed
    assert published().origin("linux.governor").visibility is Visibility.NO


@pytest.mark.parametrize("path", [PUBLISHED, RECOMMENDED], ids=lambda path: path.stem)
def test_every_part_has_an_origin(path: Path) -> None:
    """No fact comes from nowhere."""
    facts = read(path)
    for part in document(path):
        if part not in ("format", "origins", "intent"):
            assert facts.origin(part).visibility is Visibility.YES, part
