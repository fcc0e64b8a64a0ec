"""A value of the documentation as the loader of experiment files would read it."""

from steelyard.campaign.file.document import Value, parse_document


def value(text: str) -> Value:
    """Return the value of a YAML text, spelled numbers included."""
    document = parse_document(text)
    assert not document.problems, document.problems
    return document.value
