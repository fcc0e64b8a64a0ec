"""``steelyard stack plan``, and ``apply``, ``verify`` and ``revert`` with objects of a cluster."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
import pytest
from command_line import Shell

from fakes.kernel import FakeKernel
from fakes.kubernetes_api import FakeKubernetes
from fakes.processes import Answer, FakeProcesses
from steelyard.cli.stack import plan as command
from steelyard.cli.stack import planning
from steelyard.cli.stack.applying import ApplyOptions, RevertOptions, apply, revert, verify
from steelyard.cli.stack.planning import PlanOptions, _domain_here
from steelyard.core.kubernetes import CLUSTER, POD
from steelyard.core.stack import Knob, KnobKind, Place, StackFacts, StackPlan, StackRequest
from steelyard.core.wording import GIB, ExitCode, InputError, LeftBehindError, PreflightError
from steelyard.gateways.doors import Doors, system_doors
from steelyard.tuning.facts.domain_xml import domain_facts
from steelyard.tuning.facts.file import write_facts
from steelyard.tuning.plan.arithmetic import PageCount, PageCounter
from steelyard.tuning.rules.postgres import _DISK, _FLASH
from support.database_in_cluster import CONFIGZ, KUBELET, Operator, cluster_knob, pod
from support.made_machines import bare, machine
from support.recorded_stacks import PUBLISHED, RECOMMENDED
from support.stack import knob, stack_plan, write_plan

ASKED = ("stack", "plan", "--cpus", "2", "--memory", "8GiB", "--server", "formula")


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
        "Not written; --dir DIR writes them:",
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
    code, _, err = shell.run(*asked, "--server", "18")
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
    """With --dir plan.json and the files are there; --json prints the same plan."""
    facts, place = tmp_path / "facts.yaml", tmp_path / "plan"
    write_facts(facts, bare(machine(nodes=2)))
    code, out, _ = shell.run(*ASKED, "--from", str(facts), "--dir", str(place), "--json")
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
    words = ("stack", "plan", "--cpus", "8", "--memory", "24GiB", "--server", "formula")
    code, _, err = shell.run(
        *words, "--for", "kvm", "--host-facts", str(PUBLISHED), "--dir", str(place)
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
        code, _, err = shell.run(*ASKED, "--from", str(RECOMMENDED), option)
        assert code == ExitCode.BAD_INPUT
        assert f"--from looks at nothing, and {option.partition('=')[0]} does" in err
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
    code, _, err = shell.run(*ASKED, "--from", str(RECOMMENDED), "--disk", "/dev/vg0/root")
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


PLACE = Path("p")


def _kubelet(policy: str = "static") -> Knob:
    text = f"kind: KubeletConfiguration\ncpuManagerPolicy: {policy}\n"
    return replace(knob(KnobKind.KUBELET, "kubernetes/kubelet.yaml", text), layer="kubernetes")


def _plan(*knobs: Knob) -> StackPlan:
    made = stack_plan(*knobs)
    return replace(
        made, design=replace(made.design, request=replace(made.design.request, name="pg"))
    )


class _World(Operator):
    """The cluster, a machine that is none of its nodes, and a plan in a directory."""

    def __init__(self, directory: Path, *knobs: Knob) -> None:
        super().__init__()
        self.directory = directory
        self.kernel = FakeKernel(files={"/proc/sys/vm/swappiness": "60\n"})
        write_plan(directory, _plan(*knobs))

    @property
    def outside(self) -> Doors:
        """Return the gateways."""
        return Doors(
            host=self.kernel,
            kernel=self.kernel,
            sql=self.sql,
            clock=self.api.clock,
            kubernetes=FakeKubernetes(clusters={"lab": self.api}),
        )

    def options(self, *layers: str, inside: bool = True, probe: bool = True) -> ApplyOptions:
        """Return the options of an application."""
        return ApplyOptions(
            directory=self.directory,
            layers=layers,
            dsn=None,
            yes=True,
            namespace="bench" if inside else None,
            node_probe=probe,
        )

    def revert(self) -> None:
        """Put everything back."""
        revert(RevertOptions(directory=self.directory, yes=True), self.outside)


def test_objects_are_applied_verified_and_reverted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way, with the record; the revert finds the cluster by itself."""
    world = _World(tmp_path / "p", cluster_knob())
    was = dict(world.api.get(CLUSTER, "pg", "bench")["spec"])
    apply(world.options(), world.outside)
    assert "In effect." in capsys.readouterr().out
    assert world.api.get(CLUSTER, "pg", "bench")["spec"]["resources"]["limits"]["cpu"] == "1"
    verify(world.options(), form="json", outside=world.outside)
    (said,) = json.loads(capsys.readouterr().out)["knobs"]
    assert said["in_effect"] is True
    begun = json.loads((tmp_path / "p/applied.jsonl").read_text().splitlines()[0])["entry"]
    assert begun["cluster"] == {
        "context": "lab",
        "server": "https://127.0.0.1:6443",
        "namespace": "bench",
    }
    world.revert()
    assert world.api.get(CLUSTER, "pg", "bench")["spec"] == was
    assert "Everything is as it was." in capsys.readouterr().out


def test_where_no_cluster_is_named_its_objects_are_printed(shell: Shell) -> None:
    """As before: the command is named, nothing is reached, and that is no failure."""
    write_plan(PLACE, _plan(_kubelet(), cluster_knob()))
    code, out, _ = shell.run("stack", "apply", "p", "--yes")
    assert code == 0
    assert "kubectl apply -f p/files/kubernetes/cluster.yaml" in out
    assert "--context" in out
    assert shell.run("stack", "verify", "p")[0] == 0


def test_a_kubelet_that_is_not_as_planned_holds_the_cluster_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a step for the operator of the node; once configz says it, the rest goes on."""
    kubelet = _kubelet("static")
    world = _World(tmp_path, kubelet, replace(cluster_knob(), after=(kubelet.name,)))
    world.api.answers[CONFIGZ] = json.dumps({"kubeletconfig": {"cpuManagerPolicy": "none"}})
    with pytest.raises(click.exceptions.Exit) as left:
        apply(world.options(), world.outside)
    assert left.value.exit_code == ExitCode.GATE
    assert "merge kubernetes/kubelet.yaml" in capsys.readouterr().out
    assert world.api.get(CLUSTER, "pg", "bench")["spec"]["resources"]["limits"]["cpu"] == "2"
    world.api.answers[CONFIGZ] = json.dumps({"kubeletconfig": KUBELET})
    apply(world.options(), world.outside)
    assert "In effect." in capsys.readouterr().out
    with pytest.raises(LeftBehindError, match="could not be put back"):
        world.revert()  # the step was done since, and is the operator's to undo
    world.api.answers[CONFIGZ] = json.dumps({"kubeletconfig": {"cpuManagerPolicy": "none"}})
    world.revert()


def test_knobs_of_a_node_are_not_turned_on_this_machine(tmp_path: Path) -> None:
    """With a cluster named they are refused; --only leaves them out."""
    world = _World(tmp_path, knob(KnobKind.SYSCTL, "vm.swappiness", "1"), cluster_knob())
    with pytest.raises(InputError, match="knobs of its nodes"):
        apply(world.options(), world.outside)
    assert world.kernel.files["/proc/sys/vm/swappiness"] == "60\n"
    apply(world.options("kubernetes"), world.outside)
    assert world.kernel.files["/proc/sys/vm/swappiness"] == "60\n"


def test_knobs_of_a_node_are_looked_at_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a probe on the node of the primary, not on this machine; its files are not visible."""
    sysctl = knob(KnobKind.SYSCTL, "vm.swappiness", "10")
    file = knob(KnobKind.FILE, "/etc/sysctl.d/90.conf", "vm.swappiness = 10\n")
    world = _World(tmp_path, sysctl, file, cluster_knob())
    world.api.put(pod())
    apply(world.options("kubernetes"), world.outside)
    capsys.readouterr()
    node = world.api.files["steelyard-inspect-"]
    world.files("steelyard-inspect-", lambda: {**node(), "/proc/sys/vm/swappiness": "10\n"})
    verify(world.options(), form="json", outside=world.outside)
    said = {
        each["kind"]: each["in_effect"] for each in json.loads(capsys.readouterr().out)["knobs"]
    }
    assert said == {"sysctl": True, "file": None, "object": True}
    verify(world.options(probe=False), form="json", outside=world.outside)
    said = {
        each["kind"]: each["in_effect"] for each in json.loads(capsys.readouterr().out)["knobs"]
    }
    assert said == {"sysctl": None, "file": None, "object": True}
    assert [each["metadata"]["name"] for each in world.api.list(POD, "bench")] == ["pg-1"]


def test_another_cluster_in_the_place_of_the_first_is_refused(tmp_path: Path) -> None:
    """A context that means another cluster now: nothing there is put back."""
    world = _World(tmp_path, cluster_knob())
    apply(world.options(), world.outside)
    world.api.server = "https://other:6443"
    with pytest.raises(PreflightError, match="means https://other:6443 now"):
        world.revert()
    world.api.server = "https://127.0.0.1:6443"
    world.revert()


def test_a_plan_without_objects_needs_no_cluster(tmp_path: Path) -> None:
    """To name one is an error of input, not a silent nothing."""
    world = _World(tmp_path, knob(KnobKind.SYSCTL, "vm.swappiness", "1"))
    with pytest.raises(InputError, match="nothing for a Kubernetes cluster"):
        apply(world.options(), world.outside)
