"""``run --dry-run`` of a cluster's experiment where no cluster can be asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import Shell
from ruamel.yaml import YAML

from support.published_manifests import PRESETS, preset_manifests

_NOWHERE = """\
apiVersion: v1
kind: Config
current-context: away
contexts: [{name: away, context: {cluster: away, user: me}}]
clusters: [{name: away, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]
"""


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def _objects(text: str) -> list[dict[str, Any]]:
    return [each for each in YAML(typ="safe").load_all(text) if each]


def _asked(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a Cluster is, but for what a campaign's name is in."""
    spec = cluster["spec"]
    return {key: spec[key] for key in ("instances", "storage", "postgresql")}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_manifest_is_there_without_a_kubeconfig(shell: Shell, preset: str) -> None:
    """They are those of the file, and what nobody could check is said once, beside them."""
    code, out, err = shell.run("run", f"preset:{preset}", "--dry-run", "-n", "bench")
    assert code == 0
    clusters = [each for each in _objects(out) if each["kind"] == "Cluster"]
    expected = [m for m in preset_manifests(preset, "bench") if m["kind"] == "Cluster"]
    assert [_asked(each) for each in clusters] == [_asked(each) for each in expected]
    assert all(each["metadata"]["namespace"] == "bench" for each in _objects(out))
    assert "there is no kubeconfig" in err
    assert err.count("Not checked: ") == 1
    assert "storage classes" in err
    assert not Path("campaigns").exists()


@pytest.mark.slow
def test_an_api_that_does_not_answer_is_no_obstacle(shell: Shell, tmp_path: Path) -> None:
    """The objects are the same, and the reason is told."""
    (tmp_path / "kubeconfig").write_text(_NOWHERE)
    words = ("run", "preset:protocol", "--target", "kubernetes", "--dry-run")
    code, out, err = shell.run(*words)
    assert code == 0
    kinds = [each["kind"] for each in _objects(out)]
    assert kinds[0] == "Namespace"
    assert "Cluster" in kinds
    assert "cannot be reached" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dry-run", "--context", "other"], "there is no context 'other'"),
        (["--dry-run", "--json"], "cannot be reached"),
        (["--yes"], "cannot be reached"),
    ],
)
def test_what_needs_the_cluster_is_still_refused(
    shell: Shell, tmp_path: Path, words: list[str], said: str
) -> None:
    """A misspelled context, a forecast and a campaign are no business of the file alone."""
    (tmp_path / "kubeconfig").write_text(_NOWHERE)
    code, out, err = shell.run("run", "preset:published-storage", *words)
    assert code in (2, 4)
    assert out == ""
    assert said in err
