"""The section ``measure``: how a run is taken, and what is thrown away around it."""

from pydantic import Field

from steelyard.experiment import form_values as values
from steelyard.experiment.form_values import Form
from steelyard.model.measure import DEFAULT_NEIGHBOURS
from steelyard.model.turns import DEFAULT_TURN_S, LEAST_SETTLING_S


class CalibrationForm(Form):
    """How the discard is measured before the first block."""

    restarts: values.Count = Field(
        default=5, description="Activations per treatment.", examples=[5]
    )
    run: values.LongLength = Field(
        default=90.0, description="Length of the run after each.", examples=["90s"]
    )
    at_least: values.Length = Field(
        default=20.0, description="The discard is never shorter than this.", examples=["20s"]
    )


class MeasureForm(Form):
    """How a run is taken."""

    slice: values.Slice = Field(
        default=5.0, description="Measured length of a run.", examples=["5s"]
    )
    ramp: values.Ramp = Field(
        default=2.0,
        description="Thrown away at the start of each run; 0 for Redis.",
        examples=["2s"],
    )
    discard: values.Discard = Field(
        default=None,
        description="Thrown away after each activation, the same for all treatments.",
        examples=["auto"],
    )
    calibration: CalibrationForm | None = Field(
        default=None,
        description="Measures the discard; only with `discard: auto`.",
        examples=[{"restarts": 5, "run": "90s", "at_least": "20s"}],
    )
    reset: values.ResetWord = Field(
        default="auto", description="When the data go back to the prepared state."
    )
    switch: values.SwitchWord = Field(
        default="auto", description="The least that is done to go from one treatment to another."
    )
    rounds: values.Rounds = Field(
        default=None,
        description="Runs of each cell in a visit; auto is one, unless the differences or the"
        " making of servers call for more.",
        examples=["auto"],
    )
    turn: values.Turn = Field(
        default=DEFAULT_TURN_S,
        description="Length of one turn where treatments alternate.",
        examples=["250ms"],
    )
    settling: values.Settling = Field(
        default=LEAST_SETTLING_S,
        description="Thrown away at the beginning of each turn.",
        examples=["100ms"],
    )
    reconnections: values.Reconnections = Field(
        default=0,
        description="How often the load generators of an alternating run are started anew.",
        examples=[5],
    )
    prewarm: values.Switch = Field(
        default=False, description="Load the data into memory after each activation."
    )
    ceilings: values.CeilingsWord = Field(
        default="auto",
        description="Measure before the first block what the place can do at most; auto leaves"
        " the device out where that costs more than 2 % of the budget.",
        examples=["on"],
    )
    neighbours: values.Neighbours = Field(
        default=DEFAULT_NEIGHBOURS,
        description="Share of the machine that other processes may use during a run before its"
        " block is redone; ignore only notes it.",
        examples=["15%", "ignore"],
    )
    log: values.LogWord = Field(
        default="histograms",
        description="What becomes of the generator's log of every transaction: counted, counted "
        "and kept, or not written.",
        examples=["keep"],
    )
    log_sampling: values.LogSampling = Field(
        default=1.0, description="Share of the transactions that are logged.", examples=["10%"]
    )
