"""A campaign that is the gate of a pipeline, on real servers, as the workflow files run it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from ruamel.yaml import YAML

from support.live import Steelyard, napping, whole_report

WORKFLOWS = Path(__file__).parents[2] / "docs" / "workflows"


def _words(node: Any) -> Iterator[str]:
    """Yield every line of a workflow that a shell would get."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "run" and isinstance(value, str):
                yield from value.splitlines()
            elif key == "script":
                yield from value
            else:
                yield from _words(value)
    elif isinstance(node, list):
        for each in node:
            yield from _words(each)


def test_the_workflows_install_a_wheel(tmp_path: Path) -> None:
    """Their first command installs the wheel of this version, as it stands, without an index."""
    root = WORKFLOWS.parents[1]
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path / "tools"),
    ]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    settings = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    for name in ("github-actions.yml", "gitlab-ci.yml"):
        lines = _words(YAML(typ="safe", pure=True).load((WORKFLOWS / name).read_text()))
        (install,) = (line for line in lines if line.startswith("pip install "))
        place = tmp_path / name
        done = subprocess.run(
            ["/bin/bash", "-c", f"{shlex.quote(sys.executable)} -m {install}"],
            cwd=tmp_path,
            env={**os.environ, **settings, "PIP_TARGET": str(place)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert (place / "steelyard" / "__main__.py").exists()


def commands_of(name: str) -> list[list[str]]:
    """Return the commands of ours in a workflow file, without where their output goes."""
    lines = _words(YAML(typ="safe", pure=True).load((WORKFLOWS / name).read_text()))
    found = [shlex.split(line) for line in lines if line.startswith("steelyard ")]
    return [words[1 : words.index(">>") if ">>" in words else None] for words in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "baseline", "status", "outcome"),
    [("github-actions.yml", "default", 0, "passed"), ("gitlab-ci.yml", "buffers", 10, "failed")],
)
def test_the_workflows_gate_a_change(
    steelyard: Steelyard, name: str, baseline: str, status: int, outcome: str
) -> None:
    """One naps six times as long: as the change it fails, as what is in use it passes."""
    text = napping().replace("baseline: default", f"baseline: {baseline}")
    steelyard.experiment(text, "gate.yaml")
    measure, *reports = commands_of(name)
    done = steelyard.run(*measure)
    assert done.returncode == status, done.stderr
    assert f"gate {outcome}" in done.stderr
    suite = ET.parse(steelyard.directory / "gate.xml").getroot()  # noqa: S314 - written by us
    assert (int(suite.attrib["failures"]) > 0) is (status == 10)
    summary = json.loads((steelyard.directory / "gate" / "summary.json").read_text())
    assert summary["status"] == "decided"
    assert {row["outcome"] for row in summary["gate"]} == {outcome}
    for words in reports:
        assert steelyard.run(*words).returncode == 0
    # Another condition on the same record: nothing is that much faster.
    again = steelyard.run("report", "gate", "--gate", "faster > 9000%", "--output", "json")
    assert again.returncode == 0
    shown = json.loads(again.stdout)["gate"]
    assert {(row["condition"], row["outcome"]) for row in shown} == {("faster > 9000%", "passed")}


@pytest.mark.slow
def test_a_change_of_the_schema_is_gated(steelyard: Steelyard) -> None:
    """Each configuration has the data of its own script; a lost index fails, by its plan."""
    made = (
        "CREATE TABLE items AS SELECT i AS id, i % 500 AS shelf FROM generate_series(1, 50000) i;\n"
    )
    scripts = {
        "before.sql": made + "CREATE INDEX ON items (shelf);\n",
        "after.sql": made,
        "shelf.sql": "\\set s random(0, 499)\nSELECT count(*) FROM items WHERE shelf = :s;\n",
    }
    for name, text in scripts.items():
        (steelyard.directory / name).write_text(text)
    source = steelyard.experiment((WORKFLOWS / "gate-schema.yaml").read_text(), "gate.yaml")
    gate = (
        *("--gate", "slower > 3%"),
        *("--override", "measure.run_time=1s", "--override", "measure.warm_up=0s"),
        *("--override", "measure.machine_limits=off"),
    )
    done = steelyard.run("run", source, "--dir", "c", "--no-verdict", *gate)
    assert done.returncode == 10, done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert {row["outcome"] for row in summary["gate"]} == {"failed"}
    report = whole_report(steelyard.directory / "c")
    assert "Seq Scan on items" in report
    assert "| data: prepare | before.sql | after.sql |" in report


def test_the_experiment_of_the_workflows_can_run(steelyard: Steelyard) -> None:
    """It is a file of this version, and the embedded server takes its settings."""
    text = (WORKFLOWS / "gate.yaml").read_text()
    done = steelyard.run("run", steelyard.experiment(text, "gate.yaml"), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "change (shared_buffers = 256MB) vs default (baseline)" in done.stdout
    assert "alternating" in done.stdout
