"""Whether the settings of an experiment exist: only the servers know, so this comes later."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from steelyard.experiment.files import LoadedExperiment
from steelyard.experiment.suggestions import did_you_mean
from steelyard.model.errors import Problem
from steelyard.model.experiment import Layer, Treatment


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingCatalogue:
    """The settings that one server knows.

    Attributes:
        names: As the server spells them.
        server: What to call it: ``PostgreSQL 15.18``.
    """

    names: frozenset[str]
    server: str = "this server"


def check_settings(
    loaded: LoadedExperiment, catalogues: Mapping[str, SettingCatalogue]
) -> tuple[Problem, ...]:
    """Return a problem for every setting that its treatment's server does not know.

    PostgreSQL's names with a dot belong to extensions, which are not loaded yet: they pass.
    Treatments without a catalogue are not checked.
    """
    problems = dict.fromkeys(
        problem
        for treatment in loaded.experiment.treatments
        if treatment.name in catalogues
        for problem in _unknown(loaded, treatment, catalogues[treatment.name])
    )
    return tuple(problems)


def _unknown(
    loaded: LoadedExperiment, treatment: Treatment, catalogue: SettingCatalogue
) -> Iterator[Problem]:
    known = {name.lower() for name in catalogue.names}
    for setting in treatment.settings:
        if setting.layer is treatment.server_layer:
            of_extension = setting.layer is Layer.POSTGRES and "." in setting.name
            if of_extension or setting.name.lower() in known:
                continue
            path = ("treatments", treatment.name, setting.layer.value, setting.name)
            hint = did_you_mean(setting.name, sorted(catalogue.names))
            message = f"`{setting.name}` is not a setting of {catalogue.server}"
            yield loaded.problem(path, message, hint or "Remove it.", at_key=True)
