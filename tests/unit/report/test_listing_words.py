"""What ``show`` says of a campaign's treatments."""

from dataclasses import replace

from fakes.campaigns import an_experiment
from steelyard.model.experiment import Layer, Setting
from steelyard.report.listing import _asked


def test_an_empty_value_is_named() -> None:
    """A setting that is given as nothing does not read like a sentence that was cut off."""
    treatment = an_experiment().treatments[0]
    none = Setting(layer=Layer.REDIS, name="save", value="")
    assert _asked(replace(treatment, settings=(none,))).endswith("save = (empty)")
