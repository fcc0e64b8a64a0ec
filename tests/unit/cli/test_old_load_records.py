"""Records of campaigns whose load came from pods or from a host by ssh, as no version does today.

They were made before that ended; keys that are written no more are still read and told.
"""

import gzip
from pathlib import Path

import pytest

from steelyard.answers.campaign import analyse
from steelyard.cli.campaigns import rendered
from steelyard.record.directory import read_campaign

_KEPT = Path(__file__).parents[2] / "recordings" / "campaigns"
_WORDS = {
    "clusters-in-turns": ("more against default", "generators on"),
    "clusters-inside": ("async against default", "generators on"),
    "host-in-turns": ("two against one", "ssh://lab"),
    "redis-outside": ("always against off", "generators on"),
}


@pytest.mark.parametrize("name", _WORDS)
def test_it_is_still_reported(name: str, tmp_path: Path) -> None:
    """In every form; where the load came from is told."""
    packed = (_KEPT / f"{name}.jsonl.gz").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(gzip.decompress(packed))
    record = read_campaign(tmp_path)
    assert record.runs
    analysis = analyse(record)
    for form in ("json", "markdown", "html"):
        text = rendered(analysis, form)
        if form == "markdown":
            for words in _WORDS[name]:
                assert words in text
