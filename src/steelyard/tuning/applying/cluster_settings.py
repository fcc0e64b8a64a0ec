"""Whether the settings of a Cluster are in force in its database, asked by SQL."""

from collections.abc import Mapping
from typing import Final

from steelyard.engines.postgres.settings import deviations
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.sql import Sql
from steelyard.model.environment import EffectiveSetting
from steelyard.model.errors import SteelyardError
from steelyard.model.experiment import Layer, Setting
from steelyard.model.kubernetes import ObjectRef
from steelyard.tuning.applying.door import Check
from steelyard.tuning.facts.cluster_objects import AskedCluster, find_database
from steelyard.tuning.facts.cluster_server import reached

SETTINGS_IN_FORCE: Final = """
SELECT name, setting, unit, source, pending_restart FROM pg_settings WHERE name = ANY (%s)
"""
_RESTART: Final = "a restart of the server by its operator"


def settings_in_force(
    api: KubernetesApi, cluster: ObjectRef, settings: Mapping[str, str], sql: Sql, clock: Clock
) -> Check:
    """Return whether a Cluster's database has its settings in force; None where nobody can ask."""
    if not settings:
        return Check(holds=True, facts=())
    asked = AskedCluster(namespace=cluster.namespace, cluster=cluster.name)
    try:
        database = find_database(api, asked)
        with reached(database, asked, sql, clock) as address:
            rows = sql.rows(address, SETTINGS_IN_FORCE, [[name.lower() for name in settings]])
    except SteelyardError as error:
        fact = f"What its database has in force could not be asked: {error.message}."
        return Check(holds=None, facts=(fact,), remedy=error.hint)
    effective = [
        EffectiveSetting(
            name=str(name),
            value=str(value),
            unit=None if unit is None else str(unit),
            source=str(source),
        )
        for name, value, unit, source, _ in rows
    ]
    wanted = [
        Setting(layer=Layer.POSTGRES, name=name, value=str(value))
        for name, value in settings.items()
    ]
    waiting = [str(row[0]) for row in rows if row[4]]
    found = deviations(wanted, effective)
    if waiting:
        return Check(holds=False, facts=tuple(found), pending=f"{_RESTART}: {', '.join(waiting)}")
    if found:
        facts = tuple(f"{each}." for each in found)
        return Check(holds=False, facts=facts, pending="the operator has the server read them")
    return Check(holds=True, facts=(f"Its database has all {len(wanted)} settings in force.",))
