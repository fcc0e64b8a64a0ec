"""Everything that can be known to fail before it is started, said at once."""

from collections.abc import Iterator

from steelyard.experiment.assembly import Assembly
from steelyard.experiment.files import LoadedExperiment
from steelyard.experiment.setting_names import SettingCatalogue, check_settings
from steelyard.model.errors import Problem
from steelyard.model.experiment import EngineName, Layer
from steelyard.model.findings import Finding

_LAYERS = {EngineName.POSTGRES: Layer.POSTGRES, EngineName.REDIS: Layer.REDIS}


def check(loaded: LoadedExperiment, assembly: Assembly) -> tuple[Finding, ...]:
    """Check an experiment against its servers and this machine; return what is worth knowing.

    Raises:
        ExperimentFileError: Settings that do not exist or whose values the server refuses, all
            of them, with their lines.
        InputError: A generator flag that Steelyard sets itself.
        PreflightError: The machine cannot run it.
        PrivilegeError: Limits are asked for that this account cannot set.
    """
    assembly.engine.check_flags()
    problems = list(dict.fromkeys(_problems(loaded, assembly)))
    if problems:
        raise loaded.error(problems)
    for platform in dict.fromkeys(assembly.platforms.values()):
        platform.require_ready()
    if assembly.stack is not None:
        assembly.stack.require_ready()
    places = dict.fromkeys(assembly.platforms.values())
    found = (finding for platform in places for finding in platform.findings())
    stack = () if assembly.stack is None else assembly.stack.findings()
    site = () if assembly.site is None else assembly.site.findings()
    return (*assembly.engine.findings(), *found, *stack, *site)


def _problems(loaded: LoadedExperiment, assembly: Assembly) -> Iterator[Problem]:
    engine, experiment = assembly.engine, loaded.experiment
    catalogues = {
        t.name: SettingCatalogue(names=engine.known_settings(t.name), server=engine.label(t.name))
        for t in experiment.treatments
    }
    yield from check_settings(loaded, catalogues)
    layer = _LAYERS[experiment.engine].value
    for treatment in experiment.treatments:
        for complaint in engine.complaints(treatment.name):
            if complaint.setting is None:
                yield loaded.problem(("loads", "clients"), complaint.message, complaint.hint)
            else:
                place = ("treatments", treatment.name, layer, complaint.setting)
                yield loaded.problem(place, complaint.message, complaint.hint)
        limits = treatment.asked(Layer.CGROUP)
        stack = () if assembly.stack is None else assembly.stack.unfit(treatment.name)
        unfits = {
            Layer.CGROUP: assembly.platforms[treatment.name].unfit(limits),
            Layer.LINUX: stack,
        }
        for layer, unfit in ((layer, one) for layer, found in unfits.items() for one in found):
            place = ("treatments", treatment.name, layer.value, unfit.key)
            yield loaded.problem(place, unfit.message, unfit.hint)
