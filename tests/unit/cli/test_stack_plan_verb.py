"""``steelyard stack plan``: what it prints, writes and refuses."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
import pytest
from command_line import Shell

from fakes.processes import Answer, FakeProcesses
from steelyard.cli.stack import plan as command
from steelyard.cli.stack import planning
from steelyard.cli.stack.planning import PlanOptions, _domain_here
from steelyard.core.stack import Place, StackFacts, StackRequest
from steelyard.core.wording import GIB, ExitCode, PreflightError
from steelyard.gateways.doors import system_doors
from steelyard.tuning.facts.domain_xml import domain_facts
from steelyard.tuning.facts.file import write_facts
from steelyard.tuning.plan.arithmetic import PageCount, PageCounter
from steelyard.tuning.rules.postgres import _DISK, _FLASH
from support.made_machines import bare, machine
from support.recorded_stacks import PUBLISHED, RECOMMENDED

ASKED = ("stack", "plan", "--cpus", "2", "--memory", "8GiB", "--bin", "formula")


def test_it_prints_arithmetic_settings_and_assumptions(shell: Shell) -> None:
    """Line by line, each setting with reason and source, and what is taken for granted."""
    code, out, _ = shell.run(*ASKED, "--for", "kvm", "--host-facts", str(RECOMMENDED))
    assert code == 0
    words = " ".join(out.split())
    for text in (
        "memory of the database",
        "counted by a formula for",
        "shared_buffers",
        "'Resource",
        "VM power cycle",
        "hypervisor: on the hypervisor",
        "Not written; --out DIR writes them:",
        "there is no domain 'postgres' yet",
    ):
        assert text in words, text


def test_a_program_that_cannot_count_gives_way_to_the_formula(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan says why; a program that was named is an error instead."""

    @contextmanager
    def refusing(*_: object) -> Iterator[PageCounter]:
        def count(_settings: Mapping[str, str], _page_bytes: int) -> PageCount:
            raise PreflightError("huge_page_size must be 0 on this platform.")

        yield count

    monkeypatch.setattr(planning, "server_counter", refusing)
    asked = ("stack", "plan", "--cpus", "1", "--memory", "2GiB", "--postgres-version", "18")
    for where in ("local", "cnpg"):
        code, out, _ = shell.run(*asked, "--for", where)
        assert code == 0
        words = " ".join(out.split())
        assert "by a formula for PostgreSQL 18 (huge_page_size must be 0 on this" in words
    code, _, err = shell.run(*asked, "--bin", "18")
    assert code == ExitCode.REFUSED
    assert "must be 0 on this platform" in err


def test_the_option_plans_without_huge_pages(shell: Shell) -> None:
    """Every size is in ordinary pages."""
    code, out, _ = shell.run(*ASKED, "--no-huge-pages")
    assert code == 0
    words = " ".join(out.split())
    assert "of ordinary pages in all" in words
    assert "margin of the huge pages" not in words


def test_it_writes_a_plan_that_programs_read(shell: Shell, tmp_path: Path) -> None:
    """With --out plan.json and the files are there; --json prints the same plan."""
    facts, place = tmp_path / "facts.yaml", tmp_path / "plan"
    write_facts(facts, bare(machine(nodes=2)))
    code, out, _ = shell.run(*ASKED, "--facts", str(facts), "--out", str(place), "--json")
    assert code == 0
    assert (place / "plan.json").read_text("utf-8") == out
    plan = json.loads(out)
    assert plan["design"]["machine"]["pools"]
    assert all((place / "files" / file["name"]).exists() for file in plan["files"])


def test_the_hypervisor_alone_is_enough(shell: Shell) -> None:
    """Its guest is not there yet; for a cluster above it, all layers are planned."""
    code, out, _ = shell.run(*ASKED, "--for", "cnpg", "--host-facts", str(RECOMMENDED), "--json")
    assert code == 0
    design = json.loads(out)["design"]
    assert all(design[layer] for layer in ("hypervisor", "domain", "machine", "pod"))


_THERE = """\
<domain type='kvm'><name>pg</name><memory unit='GiB'>4</memory><vcpu>2</vcpu>
<os><type>hvm</type></os><devices><hostdev type='usb'/></devices></domain>
"""


def test_a_domain_that_is_there_is_the_start(shell: Shell, tmp_path: Path) -> None:
    """By --domain-xml: its name, its devices; another name and an absent file are refused."""
    place = tmp_path / "pg.xml"
    place.write_text(_THERE)
    words = (*ASKED, "--for", "kvm", "--host-facts", str(RECOMMENDED), "--domain-xml")
    code, out, _ = shell.run(*words, str(place), "--json")
    assert code == 0
    (knob,) = (knob for knob in json.loads(out)["knobs"] if knob["kind"] == "domain")
    assert knob["place"] == "pg"
    assert "<hostdev type='usb'/>" in knob["value"]
    assert "<vcpupin " in knob["value"]
    code, _, err = shell.run(*words, str(place), "--name", "other")
    assert code == ExitCode.BAD_INPUT
    assert "that of domain `pg`" in err
    code, _, err = shell.run(*words, str(tmp_path / "none.xml"))
    assert code == ExitCode.BAD_INPUT
    assert "virsh dumpxml NAME --inactive" in err


def test_the_domain_of_this_machine_is_asked_of_its_libvirt() -> None:
    """Of the plan's name, where the plan is for this machine; elsewhere another libvirt has it."""
    context = command.make_context("plan", ["--cpus=2", "--memory=8GiB", "--for=kvm"])
    here = PlanOptions(**context.params)
    processes = FakeProcesses()
    processes.on("virsh", "dumpxml", "--domain=pg", "--inactive", answer=Answer(stdout=_THERE))
    doors = replace(system_doors(), processes=processes)
    request = StackRequest(cpus=2, memory_bytes=GIB, place=Place.KVM, name="pg")
    facts = StackFacts(domains=(domain_facts(_THERE),))
    assert _domain_here(here, request, facts, doors) == _THERE
    assert _domain_here(here, request, StackFacts(domains=()), doors) is None
    there = replace(here, host_facts=RECOMMENDED)
    assert _domain_here(there, request, facts, doors) is None


def test_the_impossible_is_refused_with_what_would_fit(shell: Shell, tmp_path: Path) -> None:
    """Exit code 3, the constraint, the way out, and nothing is written."""
    place = tmp_path / "plan"
    words = ("stack", "plan", "--cpus", "8", "--memory", "24GiB", "--bin", "formula")
    code, _, err = shell.run(
        *words, "--for", "kvm", "--host-facts", str(PUBLISHED), "--out", str(place)
    )
    assert code == ExitCode.REFUSED
    assert "no NUMA node of the hypervisor has" in err
    assert "node 0: 15.0 GiB of its 16.0 GiB can be had" in err
    assert "would fit." in err
    assert not place.exists()


def test_rds_needs_no_machine(shell: Shell) -> None:
    """A parameter group follows from the request alone."""
    code, out, _ = shell.run(*ASKED, "--for", "rds", "--json")
    assert code == 0
    plan = json.loads(out)
    assert plan["design"]["machine"] is None
    assert [file["name"] for file in plan["files"]] == ["rds/parameters-1.json", "rds/commands.txt"]


def test_a_version_is_that_of_the_programs(shell: Shell) -> None:
    """A count by programs of another version would be another server's."""
    code, _, err = shell.run(*ASKED[:-1], "15", "--postgres-version", "18", "--for", "local")
    assert code == ExitCode.REFUSED
    assert "15" in err


def test_no_option_that_looks_is_ignored(shell: Shell) -> None:
    """A file of facts looks at nothing, and RDS shows no machine: both are said, as by inspect."""
    for option in ("--on=ssh://there", "--dsn=postgresql://there/x", "--data-directory=/srv"):
        code, _, err = shell.run(*ASKED, "--facts", str(RECOMMENDED), option)
        assert code == ExitCode.BAD_INPUT
        assert f"--facts looks at nothing, and {option.partition('=')[0]} does" in err
    for words in (("--on", "ssh://there"), ("--host-facts", str(RECOMMENDED))):
        code, _, err = shell.run(*ASKED, "--for", "rds", *words)
        assert code == ExitCode.BAD_INPUT
        assert f"Amazon RDS shows no machine, and {words[0]} names one" in err


def test_the_guest_above_the_hypervisor_is_looked_at(shell: Shell) -> None:
    """With --host-facts a server that is named is asked; an address that is none is told."""
    words = ("--for", "kvm", "--host-facts", str(RECOMMENDED), "--dsn", "nonsense://")
    code, _, err = shell.run(*ASKED, *words)
    assert code != 0
    assert "`nonsense://` is the URI of another driver" in err


def test_a_new_machine_gets_its_disks_and_its_bridge(shell: Shell) -> None:
    """Both are in the domain's XML, and nothing is left to be added to it."""
    kvm = ("--for", "kvm", "--host-facts", str(RECOMMENDED), "--json")
    given = ("--disk", "/dev/vg0/root", "--disk", "/srv/pg.qcow2", "--bridge", "br0")
    plan = json.loads(shell.run(*ASKED, *kvm, *given)[1])
    (xml,) = (file["content"] for file in plan["files"] if file["name"] == "kvm/postgres.xml")
    assert all(text in xml for text in ("/dev/vg0/root", "/srv/pg.qcow2", "bridge='br0'"))
    assert not any("add them" in each for each in plan["design"]["assumptions"])
    plan = json.loads(shell.run(*ASKED, *kvm, "--disk", "/dev/vg0/root")[1])
    assert any("no --bridge was given" in each for each in plan["design"]["assumptions"])
    code, _, err = shell.run(*ASKED, "--facts", str(RECOMMENDED), "--disk", "/dev/vg0/root")
    assert code == ExitCode.BAD_INPUT
    assert "--disk is of a virtual machine" in err


def test_a_kind_of_storage_is_one_that_the_rules_know(shell: Shell) -> None:
    """Proves that any other word is refused with the kinds, and that each of them is known."""
    code, _, err = shell.run(*ASKED, "--for", "rds", "--storage", "floppy")
    assert code == ExitCode.BAD_INPUT
    assert "nvme" in err
    assert "longhorn" in err
    (option,) = (each for each in command.params if each.name == "storage")
    assert isinstance(option.type, click.Choice)
    assert set(option.type.choices) == _FLASH | _DISK | {"longhorn"}


def test_a_class_of_a_cluster_is_refused_without_one(shell: Shell) -> None:
    """Proves that it is not ignored in silence."""
    code, _, err = shell.run(*ASKED, "--for", "rds", "--storage-class", "fast")
    assert code == ExitCode.BAD_INPUT
    assert "--storage-class is of a cluster" in err
