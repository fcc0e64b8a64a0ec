"""What a campaign inside a cluster consists of: the plan that all its objects are made from."""

from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError

from steelyard.model.errors import RecordError
from steelyard.platforms.kubernetes.naming import object_name
from steelyard.platforms.kubernetes.permissions import Permission, Purpose, needed

_RECORD: Final = "record"
RECORD_SUFFIX: Final = f"-{_RECORD}"
RECORD_SIZE: Final = "2Gi"  # records of an hour take some ten megabytes; kept logs take more


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A campaign as a Job; it is kept beside it, so that it is found whole by its label.

    Attributes:
        campaign_id: Known before the campaign begins, because everything carries it.
        namespace: Of the Job, of the volume, and of what the campaign makes.
        makes_namespace: It was made for this campaign and goes with it.
        image: With Steelyard in it.
        account: A ServiceAccount that is there; None: one of its own, with a role.
        purposes: What its own account is for.
        withheld: Resources that its account does without, because who starts it may not give them.
        storage: Size of the volume for the record.
        storage_class: None: the cluster's default.
        deadline_s: After this the cluster ends the Job, whatever it does.
    """

    campaign_id: str
    namespace: str
    makes_namespace: bool = False
    image: str
    account: str | None = None
    purposes: tuple[Purpose, ...] = ()
    withheld: tuple[str, ...] = ()
    storage: str = RECORD_SIZE
    storage_class: str | None = None
    deadline_s: int

    @property
    def name(self) -> str:
        """Return the name of the Job, of its account and of their roles."""
        return job_name(self.campaign_id)

    @property
    def claim(self) -> str:
        """Return the name of the volume's claim."""
        return object_name(self.campaign_id, _RECORD)

    @property
    def request(self) -> str:
        """Return the name of the ConfigMap with the experiment and this plan."""
        return object_name(self.campaign_id, "request")

    @property
    def reader(self) -> str:
        """Return the name of the pod that reads the record when the Job's is gone."""
        return object_name(self.campaign_id, "reader")

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """Return what its own account may; nothing where it has none."""
        if self.account:
            return ()
        asked = needed((Purpose.INSIDE, *self.purposes))
        return tuple(each for each in asked if each.resource not in self.withheld)


def job_name(campaign_id: str) -> str:
    """Return the name of the Job that runs a campaign, if one does."""
    return object_name(campaign_id, "job")


_PLAN: Final = TypeAdapter(JobPlan)


def plan_text(plan: JobPlan) -> str:
    """Return a plan as it is kept."""
    return _PLAN.dump_json(plan, indent=1).decode()


def read_plan(text: str, name: str) -> JobPlan:
    """Return a plan as it was kept.

    Raises:
        RecordError: Another version kept it, or nobody.
    """
    try:
        return _PLAN.validate_json(text)
    except ValidationError as error:
        raise RecordError(
            f"what is kept of the campaign in ConfigMap {name} cannot be read",
            hint="Use the version of Steelyard that started it.",
        ) from error
