"""A campaign that is the gate of a pipeline, on real servers."""

import json
from xml.etree import ElementTree as ET

from support.live import TINY, Steelyard


def test_a_campaign_measures_until_its_gate_has_an_outcome(steelyard: Steelyard) -> None:
    """It passes with the first interval; the record, the report and the XML say the same."""
    source = steelyard.experiment(TINY.replace(", precision: 99%", ""))
    gate = ("--fail-if", "slower > 95%", "--junit", "gate.xml")
    done = steelyard.run("run", source, "--out", "c", "--yes", *gate)
    assert done.returncode == 0, done.stderr
    assert "gate passed" in done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert summary["status"] == "decided"
    assert {row["outcome"] for row in summary["gate"]} == {"passed"}
    suite = ET.parse(steelyard.directory / "gate.xml").getroot()  # noqa: S314 - written by us
    assert (suite.attrib["failures"], int(suite.attrib["tests"])) == ("0", len(summary["gate"]))
    # Another condition on the same record: nothing is that much slower, so all are not.
    again = steelyard.run("report", "c", "--fail-if", "faster > 9000%", "--format", "json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["gate"] == summary["gate"]
