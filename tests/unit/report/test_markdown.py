"""Text in Markdown: shown as it is, and paths can be copied from the source."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.analyses import quick
from steelyard.answers.report import build_document
from steelyard.core.target import EndpointTarget
from steelyard.report.html import escape, render_markdown


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("in /var/tmp/endpoint-_x1y_ now", "in `/var/tmp/endpoint-_x1y_` now"),
        ("/mnt/_fast_: full.", "`/mnt/_fast_`: full."),
        ("of /proc/diskstats.", "of `/proc/diskstats`."),
        ("(/sys/class/net)", "(`/sys/class/net`)"),
        ("postgresql:///p?host=/t/_x&port=5", "`postgresql:///p?host=/t/_x&port=5`"),
        ("see https://www.example.org/a_b", "see https://www.example.org/a_b"),
        ("100 1/s and 50 reads/s", "100 1/s and 50 reads/s"),
        ("_emphasis_ and *stars*", r"\_emphasis\_ and \*stars\*"),
        ("/srv/a|b", r"`/srv/a`\|b"),
        ("/srv/a`b", r"`/srv/a`\`b"),
    ],
)
def test_paths_and_addresses_are_code_and_all_else_is_escaped(text: str, markdown: str) -> None:
    """What is copied is what was meant; nothing else in a text can format the page."""
    assert escape(text) == markdown


@given(st.text(alphabet="abz019_-", min_size=1, max_size=12))
def test_a_directory_of_any_name_stands_in_the_report_as_it_is(name: str) -> None:
    """Random names of temporary directories have underscores anywhere."""
    home = f"/srv/endpoint-{name}".rstrip("-")
    analysis = quick()
    first, second = analysis.experiment.configurations
    moved = replace(second, target=EndpointTarget(uri=f"postgresql:///postgres?host={home}&port=1"))
    experiment = replace(analysis.experiment, configurations=(first, moved))
    facts = (replace(analysis.facts[0], value=home),)
    told = render_markdown(build_document(replace(analysis, experiment=experiment, facts=facts)))
    assert f"`{home}`" in told
