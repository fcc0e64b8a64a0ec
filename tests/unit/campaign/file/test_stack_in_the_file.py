"""``linux``, ``kvm`` and ``manual`` in experiment files: inherited, varied, and refused."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, problems_of

from steelyard.core.experiment import Layer, ManualStep
from steelyard.tuning.facts.domain_xml import domain_name

_STACK = """\
version: 1
name: stack
workloads:
  - {name: reads, builtin: select-only, scale_factor: 1}
loads: {clients: 1}
seed: 1
configurations:
  default: {}
  pages:
    extends: default
    linux: {vm.nr_hugepages: auto, vm.swappiness: 1, read_ahead: 128kB}
  more:
    extends: pages
    linux: {vm.swappiness: null, vm.nr_hugepages: 300}
"""
_GUESTS = """\
version: 1
name: guests
workloads:
  - {name: reads, builtin: select-only, scale_factor: 1}
loads: {clients: 1}
seed: 1
configurations:
  default:
    target: {kind: endpoint, host: guest}
    kvm: {domain: loose.xml}
    manual: {command: "./cycle 'my guest'", timeout: 5m}
  pinned:
    extends: default
    kvm: {domain: pinned.xml}
"""
_DOMAIN = "<domain type='kvm'>\n  <!-- pins -->\n  <name> guest-1 </name>\n  <vcpu>2</vcpu>\n"


def _asked(text: str, configuration: str, *overrides: str) -> dict[str, str]:
    return (
        load(text, Path("/nonexistent"), *overrides)
        .experiment.configuration(configuration)
        .asked(Layer.LINUX)
    )


def test_kernel_settings_are_settings_of_their_layer() -> None:
    """Each is inherited on its own, and null removes an inherited one."""
    assert _asked(_STACK, "default") == {}
    first = {"vm.nr_hugepages": "auto", "vm.swappiness": "1", "read_ahead": "128kB"}
    assert _asked(_STACK, "pages") == first
    assert _asked(_STACK, "more") == {"vm.nr_hugepages": "300", "read_ahead": "128kB"}
    labels = {s.label for s in load(_STACK).experiment.configuration("pages").settings}
    assert "linux: vm.nr_hugepages" in labels


def test_dotted_names_are_reached_from_the_command_line() -> None:
    """The dot in a sysctl's name is no step of the path."""
    override = "configurations.pages.linux.vm.swappiness=60"
    assert _asked(_STACK, "pages", override)["vm.swappiness"] == "60"


def test_factors_vary_kernel_settings() -> None:
    """By the short form and by levels; two factors may not set one knob."""
    head = _STACK[: _STACK.index("configurations:")]
    short = head + "factors:\n  swap: {linux: {vm.swappiness: [60, 1]}}\n"
    thp = "  thp: {off: , on: {linux: {transparent_huge_pages: always}}}\n"
    experiment = load(short + thp).experiment
    found = {t.name: t.asked(Layer.LINUX) for t in experiment.configurations}
    assert found["swap+thp"] == {"vm.swappiness": "1", "transparent_huge_pages": "always"}
    twice = thp.replace("transparent_huge_pages: always", "vm.swappiness: 5")
    assert "`vm.swappiness` is set by the factor" in problems_of(short + twice)[0].message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("linux: {vm.swapiness: 1 2, kernel.core_pattern: x}", "not for experiments"),
        ("linux: {transparent_huge_page: never}", "no name of a kernel setting"),
        ("linux: {transparent_huge_pages: 'on'}", "`on` is unknown"),
        ("linux: {vm.nr_hugepages: plenty}", "no number of huge pages"),
        ("linux: {vm.swappiness: null}", "no inherited `vm.swappiness` to remove"),
        ("linux: {vm.swappiness: [1]}", "a list or mapping"),
        ("manual: {timeout: 5m}", "neither what to do nor which command"),
        ('manual: {command: "a \'b"}', "is no command"),
        ("manual: {text: Do it.}", "nothing leads back"),
        ("kvm: {domain: pinned.xml}", "there is no file"),
    ],
)
def test_each_mistake_is_told_with_a_way_out(given: str, message: str) -> None:
    """Names, values, steps that nobody does, and machines that nobody defined."""
    text = SMALL.replace(
        "  other: {extends: default}\n", f"  other: {{extends: default, {given}}}\n"
    )
    found = [problem for problem in problems_of(text) if message in problem.message]
    assert found
    assert all(problem.hint and problem.line in (8, 9) for problem in found)


def test_a_misspelled_knob_is_recognised() -> None:
    """The way out names the one that was meant."""
    text = SMALL.replace(
        "extends: default}", "extends: default, linux: {transparent_huge_page: a}}"
    )
    assert problems_of(text)[0].hint == "did you mean `transparent_huge_pages`?"


def test_an_endpoints_kernel_is_out_of_reach() -> None:
    """Knobs are of this machine, and the server is on another."""
    found = problems_of(_STACK, "configurations.default.target={kind: endpoint, host: db}")
    assert [p.line for p in found] == [11, 14]
    assert all("knobs of this machine" in p.message for p in found)


def _guests(folder: Path, *overrides: str) -> str:
    for name in ("loose.xml", "pinned.xml"):
        (folder / name).write_text(_DOMAIN + f"  <!-- {name} -->\n</domain>\n")
    return _GUESTS


def test_a_virtual_machine_is_its_file_and_its_text(tmp_path: Path) -> None:
    """The record needs no other file; a command is split as a shell would."""
    experiment = load(_guests(tmp_path), tmp_path).experiment
    pinned = experiment.configuration("pinned")
    assert pinned.asked(Layer.KVM) == {"domain": "pinned.xml"}
    assert "pinned.xml" in pinned.domain_xml
    assert pinned.manual == ManualStep(command=("./cycle", "my guest"), timeout_s=300.0)
    assert experiment.configuration("default").domain_xml != pinned.domain_xml


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: endpoint, host: guest", "kind: local", "cannot power-cycle itself"),
        (
            "    manual: {command: \"./cycle 'my guest'\", timeout: 5m}\n",
            "",
            "nothing power-cycles",
        ),
        ("    kvm: {domain: loose.xml}\n", "", "`default` has none: nothing leads back"),
    ],
)
def test_a_virtual_machine_needs_a_way_to_be_started_anew(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """Not the machine we are on, and not without somebody who power-cycles it."""
    text = _guests(tmp_path).replace(old, new)
    assert any(message in p.message for p in problems_of(text, base=tmp_path))


def test_a_file_that_is_no_domain_is_refused(tmp_path: Path) -> None:
    """Its name is what libvirt knows it by."""
    text = _guests(tmp_path)
    for content in (
        "<network><name>n</name></network>",
        "<domain><name>x</name> & <oops>",
        "<domain><name>x</name>",
        "<domain><!-- <name>x</name> --></domain>",
        "<domain><metadata><name>x</name></metadata></domain>",
    ):
        (tmp_path / "pinned.xml").write_text(content)
        (problem,) = problems_of(text, base=tmp_path)
        assert "no XML of a libvirt domain" in problem.message, content
        assert problem.line == 14


def test_the_name_is_the_domains_own() -> None:
    """Not one of a comment before it, which would be another machine."""
    text = "<domain type='kvm'><!-- was <name>old</name> --><name> guest-1 </name></domain>"
    assert domain_name(text) == "guest-1"
    assert domain_name("<domain><name>x") is None


@pytest.mark.parametrize(
    "element",
    [
        "<graphics type='vnc' passwd='hunter2' passwdValidTo='2030-01-01T00:00:00'/>",
        '<graphics type="spice" passwd="hunter2"/>',
        "<!-- <graphics type='vnc' passwd='hunter2'/> -->",
        "<secret type='passphrase'>hunter2</secret>",
        "<commandline><arg value='secret,id=s0,data=hunter2'/></commandline>",
    ],
)
def test_a_definition_with_a_password_is_refused(tmp_path: Path, element: str) -> None:
    """The record has the whole text, and whoever reads the record would have the password."""
    text = _guests(tmp_path)
    (tmp_path / "pinned.xml").write_text(f"{_DOMAIN}{element}</domain>")
    (problem,) = problems_of(text, base=tmp_path)
    assert "has a password in it" in problem.message
    assert "hunter2" not in problem.message + problem.hint


def test_the_command_that_restarts_an_endpoint_has_no_password_either() -> None:
    """Its words are in the record like those of a step."""
    target = "{kind: endpoint, host: db, restart_command: [reboot, --password, hunter2]}"
    found = problems_of(SMALL, f"configurations.default.target={target}")
    assert [p.message for p in found if "password" in p.message] == [
        "the command has a password in it"
    ]


@pytest.mark.parametrize(
    "element",
    [
        "<graphics type='vnc' passwd=''/>",
        "<auth username='libvirt'><secret type='ceph' uuid='2ec1'/></auth>",
    ],
)
def test_a_reference_to_a_secret_is_none(tmp_path: Path, element: str) -> None:
    """It is kept by libvirt; the definition only says which one."""
    text = _guests(tmp_path)
    (tmp_path / "pinned.xml").write_text(f"{_DOMAIN}{element}</domain>")
    assert "<vcpu>2" in load(text, tmp_path).experiment.configuration("pinned").domain_xml


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("ipmitool --password hunter2", True),
        ("ipmitool -password=hunter2", True),
        ("[cycle, --token, hunter2]", True),
        ("env PGPASSWORD=hunter2 cycle", True),
        ("sshpass -p hunter2 ssh host", True),
        ("ipmitool --password-file /root/bmc", False),
        ("cycle --password --wait", False),
    ],
)
def test_a_command_with_a_password_is_refused(
    tmp_path: Path, command: str, *, refused: bool
) -> None:
    """It would be in the record; a file that it is read from is not."""
    old = "{command: \"./cycle 'my guest'\", timeout: 5m}"
    text = _guests(tmp_path).replace(old, f"{{command: {command}}}")
    assert command in text
    if not refused:
        assert load(text, tmp_path).experiment.configuration("pinned").manual
        return
    (problem,) = problems_of(text, base=tmp_path)
    assert "has a password in it" in problem.message
    assert "hunter2" not in problem.message + problem.hint
