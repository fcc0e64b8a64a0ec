"""The table of a plan of the stack: readable at 100 columns, whatever is long in it."""

from steelyard.answers.stack.plan import plan_document
from steelyard.core.stack import Knob, KnobKind
from steelyard.report.document import Row, Table
from steelyard.report.terminal import render_terminal
from support.stack import stack_plan

_WORDS = "A server's memory is not to be swapped for the page cache of somebody else"
_PLACE = "/sys/kernel/mm/transparent_hugepage/enabled"
_LONG = Knob(
    name=f"linux:{_PLACE}",
    layer="linux",
    kind=KnobKind.SYSFS,
    place=_PLACE,
    value=",".join(str(cpu) for cpu in range(40)),
    reason=_WORDS,
    source="tuned",
)
_ENABLE = Knob(
    name="linux:enable /etc/systemd/system/steelyard-huge-pages.service",
    layer="linux",
    kind=KnobKind.MANUAL,
    place="systemctl daemon-reload && systemctl enable steelyard-huge-pages.service",
    value="{ [ -d /run/systemd/system ] || { false; }; } && systemctl is-enabled steelyard",
    reason=_WORDS,
)


def _row(knob: Knob) -> Row:
    """Return the row of the only knob of Linux."""
    document = plan_document(stack_plan(knob), None)
    blocks = next(each for each in document.sections if each.anchor == "settings").blocks
    (table,) = (each for each in blocks if isinstance(each, Table) and each.rows)
    return table.rows[0]


def test_a_long_value_leaves_room_for_the_reason() -> None:
    """Proves that name and value are shortened at 100 columns, and that nothing of it is lost."""
    name, value, _, words = _row(_LONG).cells
    assert name == ".../transparent_hugepage/enabled"
    assert value == "0,1,2,3,4,5,6,7,8..."
    assert words == f"{_WORDS}. [tuned] In full: {_LONG.value}"
    text = render_terminal(plan_document(stack_plan(_LONG), None), 100)
    line = next(line for line in text.splitlines() if "A server's" in line)
    assert "A server's memory is not" in line
    assert len(line) <= 100


def test_a_short_one_is_left_as_it_is() -> None:
    """Proves that what is short enough, a path too, is not touched."""
    short = Knob(
        name="linux:/etc/x/y.conf",
        layer="linux",
        kind=KnobKind.SYSFS,
        place="/etc/x/y.conf",
        value="1",
        reason=_WORDS,
    )
    assert _row(short).cells == ("/etc/x/y.conf", "1", "live", f"{_WORDS}.")


def test_a_step_shows_the_command_that_does_it() -> None:
    """Proves that its check, a piece of shell, is not what the reader sees; no source, no `[]`."""
    name, value, _, words = _row(_ENABLE).cells
    assert name == "enable .../steelyard-huge-pages.service"
    assert value == "by you"
    assert words == f"To do: {_ENABLE.place}. {_WORDS}."


def test_a_step_in_words_is_told_once() -> None:
    """Proves that a step whose name is what to do is not squeezed into the first column."""
    place = "on the kernel command line of /etc/default/grub: default_hugepagesz=2M"
    step = Knob(
        name=f"linux:{place}",
        layer="linux",
        kind=KnobKind.MANUAL,
        place=place,
        value="",
        reason="x",
    )
    assert _row(step).cells == ("a step", "by you", "live", f"To do: {place}. x.")
