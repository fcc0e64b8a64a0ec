"""Findings of one rule are told as one: what they share once, what differs after each name."""

from dataclasses import replace

from steelyard.core.findings import Finding, Severity, grouped

REWRITTEN = "a rewrite fell into {} of 27 runs (p = {}, events count as independent)"
ONE = Finding(code="rewrites", severity=Severity.WARNING, message="", remedy="Turn it off.")


def _of(name: str, text: str) -> Finding:
    return replace(ONE, subject=name, message=f"{name}: {text}")


def test_one_sentence_of_several_configurations_is_told_once() -> None:
    """The names of all stand before it, and the remedy is not repeated."""
    (told,) = grouped([_of("a", "it is elsewhere"), _of("b", "it is elsewhere")])
    assert (told.message, told.remedy) == ("a and b: it is elsewhere", "Turn it off.")


def test_what_differs_stands_after_each_name() -> None:
    """The first sentence whole, of the others only their own figures, brackets closed."""
    found = [_of("a", REWRITTEN.format(9, 0.1)), _of("b", REWRITTEN.format(13, 0.2))]
    (told,) = grouped(found)
    assert told.message == f"{found[0].message}; likewise b: 13 of 27 runs (p = 0.2)"


def test_a_unit_stays_with_its_number() -> None:
    """Also where the sentences go on alike from there."""
    (told,) = grouped([_of("a", "used 5 % of it"), _of("b", "used 7 % of it")])
    assert told.message.endswith("likewise b: 7 %")


def test_other_rules_severities_and_remedies_stay_apart() -> None:
    """And the order is that of the first of each."""
    found = [
        _of("a", "x"),
        replace(_of("b", "x"), code="other"),
        replace(_of("c", "x"), severity=Severity.INFO),
        replace(_of("d", "x"), remedy="Wait."),
        _of("e", "x"),
    ]
    told = grouped(found)
    assert [each.message for each in told] == ["a and e: x", *(each.message for each in found[1:4])]
