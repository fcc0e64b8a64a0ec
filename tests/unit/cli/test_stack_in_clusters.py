"""``stack apply``, ``verify``, ``revert`` and objects of a cluster: where one is named, or not."""

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest
from command_line import Shell

from fakes.kernel import FakeKernel
from fakes.kubernetes_api import FakeKubernetes
from steelyard.cli.stack.applying import ApplyOptions, RevertOptions, apply, revert, verify
from steelyard.core.kubernetes import CLUSTER, POD
from steelyard.core.stack import Knob, KnobKind, StackPlan
from steelyard.core.wording import ExitCode, InputError, LeftBehindError, PreflightError
from steelyard.tuning.apply.doors import Outside
from support.database_in_cluster import CONFIGZ, KUBELET, Operator, cluster_knob, pod
from support.stack import knob, stack_plan, write_plan

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
    def outside(self) -> Outside:
        """Return the gateways."""
        return Outside(
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
    verify(world.options(), as_json=True, outside=world.outside)
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
    verify(world.options(), as_json=True, outside=world.outside)
    said = {
        each["kind"]: each["in_effect"] for each in json.loads(capsys.readouterr().out)["knobs"]
    }
    assert said == {"sysctl": True, "file": None, "object": True}
    verify(world.options(probe=False), as_json=True, outside=world.outside)
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
