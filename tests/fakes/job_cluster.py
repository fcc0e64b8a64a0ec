"""A cluster in memory in which a campaign runs as a Job: its record is a directory of this machine.

Programs of its containers are real: what ``python3`` is told to do there is done here, on the
directory that stands for the volume.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from fakes.campaigns import CAMPAIGN_ID
from fakes.clock import FakeClock
from fakes.kubernetes_api import FakeKubernetesApi, Ran, Said, run_pods
from steelyard.core.kubernetes import JOB, POD, ObjectRef
from steelyard.places.kubernetes.job import INSTALLED, RECORD, JobPlan

_PODS = count(1)


@dataclass(kw_only=True)
class JobCluster:
    """The cluster, and the record that the Job's pod writes.

    Attributes:
        runs: Whether pods of a Job come up.
        broken: How many commands in containers fail from now on, as if the connection were lost.
    """

    record: Path
    api: FakeKubernetesApi = field(default_factory=FakeKubernetesApi)
    runs: bool = True
    broken: int = 0

    def __post_init__(self) -> None:
        self._answer = Said(does=self._do)
        self.api.react(POD, run_pods())
        self.api.react(JOB, self._make_pod)
        self.api.on_run("python3", said=self._answer)

    def end(self, plan: JobPlan, *, exit_code: int = 0, reason: str = "") -> None:
        """Let the Job's pod end."""
        job = self.api.get(JOB, plan.name, plan.namespace)
        kind = "Failed" if exit_code else "Complete"
        condition = {"type": kind, "status": "True", "reason": reason}
        job["status"] = {"conditions": [condition]}
        for pod in self._pods(plan):
            pod["status"]["phase"] = "Failed" if exit_code else "Succeeded"
            pod["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": exit_code}}

    def expire(self, plan: JobPlan) -> None:
        """Let the cluster remove the Job that ended, as it does after a week."""
        self.api.lose(JOB, plan.name, plan.namespace)

    def pod_of(self, plan: JobPlan) -> dict[str, Any]:
        """Return the pod of the Job."""
        return self._pods(plan)[-1]

    def _pods(self, plan: JobPlan) -> list[dict[str, Any]]:
        names = [
            pod["metadata"]["name"]
            for pod in self.api.objects.all_of(POD, plan.namespace, {})
            if pod["metadata"]["name"].startswith(f"{plan.name}-")
        ]
        return [self.api.get(POD, name, plan.namespace) for name in names]

    def _make_pod(self, job: dict[str, Any]) -> None:
        if not self.runs:
            return
        metadata = job["metadata"]
        template = job["spec"]["template"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"]}
        self.api.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{metadata['name']}-{next(_PODS)}",
                    "namespace": metadata["namespace"],
                    "labels": template["metadata"]["labels"],
                    "ownerReferences": [{**owner, "uid": metadata["uid"]}],
                },
                "spec": template["spec"],
            }
        )

    def _do(self, ran: Ran) -> None:
        if self.broken > 0:
            self.broken -= 1
            self._answer.stdout, self._answer.exit_status = "", 137
            return
        pod = ObjectRef(kind=POD, name=ran.where.pod, namespace=ran.where.namespace)
        held = self.api.objects.held(pod)
        assert held is not None
        assert held["status"]["phase"] == "Running", "nothing can be run in a pod that ended"
        places = {RECORD: self.record, INSTALLED: self.record.parent / "steelyard"}
        words = [str(places.get(word, word)) for word in ran.argv[1:]]
        ended = subprocess.run(
            [sys.executable, *words],
            input=ran.stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        self._answer.stdout, self._answer.stderr = ended.stdout, ended.stderr
        self._answer.exit_status = ended.returncode


class EventfulClock(FakeClock):
    """A clock under which things happen: each sleep lets the next one happen."""

    def __init__(self, *events: Callable[[], None]) -> None:
        super().__init__()
        self.events = list(events)

    def sleep(self, seconds: float) -> None:
        """Let time pass, and the next thing happen."""
        super().sleep(seconds)
        if self.events:
            self.events.pop(0)()


def a_job_plan(**given: Any) -> JobPlan:
    """Return the plan of the campaign that ``fakes.campaigns`` runs."""
    plain: dict[str, Any] = {
        "campaign_id": CAMPAIGN_ID,
        "namespace": "default",
        "image": "example/steelyard:0",
        "deadline_s": 7200,
    }
    return JobPlan(**{**plain, **given})
