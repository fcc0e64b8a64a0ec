"""``steelyard kubernetes storage-classes``: the manifests that users apply.

Every parameter of each is in a golden file.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from command_line import Shell
from ruamel.yaml import YAML

from steelyard.core.wording import ExitCode


def classes(text: str) -> dict[str, Mapping[str, Any]]:
    """Return the manifests of a text by name."""
    read = YAML(typ="safe").load_all(text)
    return {str(each["metadata"]["name"]): each for each in read}


def test_all_classes_are_printed_as_manifests(shell: Shell) -> None:
    """Without a name: every class, each complete and bound where the pod is placed."""
    code, out, _ = shell.run("kubernetes", "storage-classes")
    made = classes(out)
    assert code == 0
    assert {"local-path", "longhorn-1r", "longhorn-2r", "longhorn-2r-shared"} <= set(made)
    for each in made.values():
        assert (each["apiVersion"], each["kind"]) == ("storage.k8s.io/v1", "StorageClass")
        assert each["volumeBindingMode"] == "WaitForFirstConsumer"
        # A volume that stays behind would fill the disk within a campaign.
        assert each["reclaimPolicy"] == "Delete"


def test_those_of_longhorn_alone(shell: Shell) -> None:
    """`--longhorn` leaves out what the cluster brings; parameters are texts, as the API wants."""
    _, out, _ = shell.run("kubernetes", "storage-classes", "--longhorn")
    made = classes(out)
    assert "local-path" not in made
    assert {each["provisioner"] for each in made.values()} == {"driver.longhorn.io"}
    for each in made.values():
        assert all(isinstance(value, str) for value in each["parameters"].values())


def test_only_those_that_are_named_in_that_order(shell: Shell) -> None:
    """Names choose; each comes once, in the order given."""
    _, out, _ = shell.run(
        "kubernetes", "storage-classes", "longhorn-2r", "local-path", "longhorn-2r"
    )
    assert list(classes(out)) == ["longhorn-2r", "local-path"]


@pytest.mark.parametrize("words", [("longhorn-3r",), ("--longhorn", "local-path")])
def test_an_unknown_name_is_answered_with_the_known_ones(
    shell: Shell, words: tuple[str, ...]
) -> None:
    """Nothing is printed for a class that there is not, and the names are told."""
    code, out, err = shell.run("kubernetes", "storage-classes", *words)
    assert (code, out) == (ExitCode.BAD_INPUT, "")
    assert f"there is no storage class `{words[-1]}`" in err
    assert "longhorn-" in err
