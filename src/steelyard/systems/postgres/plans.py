"""How a server would run the statements of scripts: their plans, read before the first block.

Generic plans, for parameters that are not known: they are the same whenever they are asked for, and
those that pgbench's prepared statements get unless the values favour another one.

Source: PostgreSQL 18, PREPARE (generic and custom plans); plan_cache_mode since version 12.
"""

import re
from contextlib import closing
from typing import Final

from steelyard.core.command import ServerAddress
from steelyard.core.errors import TargetError
from steelyard.core.experiment import Workload
from steelyard.core.measurement import StatementPlan
from steelyard.gateways.sql import Sql, SqlSession
from steelyard.systems.postgres.pgbench import parametrised, statements

_NAME: Final = "steelyard-plans"
_PATIENCE_S: Final = 30.0
_GENERIC: Final = "SET plan_cache_mode = force_generic_plan"
_PLANNED: Final = re.compile(
    r"(select|with|insert|update|delete|merge|values|table)\b", re.IGNORECASE
)


def plans_of(workload: Workload, address: ServerAddress, sql: Sql) -> tuple[StatementPlan, ...]:
    """Return the plan of each statement of a workload's scripts, in order, each statement once.

    Args:
        workload: Without scripts it has none.
        address: Of its database, with the settings of the configuration in force.
        sql: To ask.

    Raises:
        TargetError: The server lets nobody in.
    """
    told = (each for script in workload.scripts for each in statements(script.text))
    asked = [each for each in dict.fromkeys(told) if _PLANNED.match(each)]
    if not asked:
        return ()
    with closing(sql.session(address, _NAME, patience_s=_PATIENCE_S)) as session:
        session.do(_GENERIC)
        return tuple(
            _plan(session, workload.name, statement, f"steelyard_plan_{number}")
            for number, statement in enumerate(asked)
        )


def _plan(session: SqlSession, workload: str, statement: str, name: str) -> StatementPlan:
    prepared, parameters = parametrised(statement)
    given = f" ({', '.join(['NULL'] * parameters)})" if parameters else ""
    try:
        session.do(f"PREPARE {name} AS {prepared}")
        rows = session.rows(f"EXPLAIN (COSTS OFF) EXECUTE {name}{given}")
    except TargetError as error:
        return StatementPlan(workload=workload, statement=statement, trouble=error.message)
    lines = tuple(str(line) for (line,) in rows)
    return StatementPlan(workload=workload, statement=statement, lines=lines)
