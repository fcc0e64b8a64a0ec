"""Whether the generators' pods reach a server through its Service: nodes hear of it one by one."""

from typing import Final

from steelyard.gateways.process import Processes
from steelyard.model.command import Command, ServerAddress
from steelyard.model.errors import TargetError

_WITHIN_S: Final = 60  # a guess: kube-proxy of a busy node was seen to take some seconds
_SCRIPT: Final = """
over=$((SECONDS + $3))
until (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; do
    ((SECONDS < over)) || exit 1
    sleep 0.1
done
"""


def await_service(address: ServerAddress, processes: Processes, pods: int) -> None:
    """Wait until every generator's pod can connect to a server.

    A server answers its own pod, and us, before all nodes know the way to its Service.

    Args:
        address: Of the server; nothing is waited for where pods have no way of their own.
        processes: Of the generators.
        pods: How many they are.

    Raises:
        TargetError: One cannot after a minute.
    """
    if address.inside is None or not pods:
        return
    host, port = address.inside
    argv = ("bash", "-c", _SCRIPT, "await", host, str(port), str(_WITHIN_S))
    completed = processes.run_together([Command(argv=argv)] * pods, timeout_s=_WITHIN_S * 2.0)
    if not all(each.succeeded for each in completed):
        raise TargetError(
            f"the pods of load generators do not reach {host}:{port}",
            hint="Does a NetworkPolicy keep them apart? Look with `kubectl get networkpolicy`.",
        )
