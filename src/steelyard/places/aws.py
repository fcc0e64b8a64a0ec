"""What a campaign makes in an account of AWS: made with a tag, waited for, deleted, looked for.

Invariant: everything is in the ledger before the call that makes it, and carries the campaign in a
tag from its first moment on. Nothing is deleted that does not carry it. A name follows from the
campaign, so a call that was cut off is told from one that was never sent: the name is there or not.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from steelyard.core.measurement import BILLED_REQUESTS, ProviderSeries
from steelyard.core.outside import InAws, Rented, in_undoing_order
from steelyard.core.wording import (
    LeftBehindError,
    PreflightError,
    PrivilegeError,
    SteelyardError,
    TargetError,
)
from steelyard.gateways.aws import AwsApi, AwsRefusalError
from steelyard.gateways.host import Clock, looks
from steelyard.places.protocol import Ledger

CAMPAIGN: Final = "steelyard:campaign"
_EXPIRES: Final = "steelyard:expires"
_WITHIN_S: Final = 3600.0  # RDS takes 5 to 15 minutes; more than boto3's own half hour
_POLLS_S: Final = (0.5, 2.0, 5.0, 15.0)
_ABSENT_S: Final = 60.0  # AWS may not list for a while what it has just accepted; a guess
# Every state that is left by itself; "Viewing DB instance status", Amazon RDS User Guide.
_PASSING: Final = frozenset(
    {
        *("backing-up", "configuring-enhanced-monitoring", "configuring-iam-database-auth"),
        *("configuring-log-exports", "converting-to-vpc", "creating", "deleting", "maintenance"),
        *("modifying", "moving-to-vpc", "rebooting", "resetting-master-credentials", "renaming"),
        *("starting", "stopping", "storage-config-upgrade", "upgrading", "delete-precheck"),
        *("storage-initialization", "inaccessible-encryption-credentials-recoverable"),
    }
)
# In these it serves as if it were available: moving data about takes hours in the background.
_SERVING: Final = frozenset({"available", "storage-optimization"})


def require_account(api: AwsApi, accounts: tuple[str, ...]) -> str:
    """Return the account, if it is one that the experiment names.

    Raises:
        PreflightError: It is another one, or none is named.
        LoginError: There are no credentials, or they are wrong.
    """
    account = api.account
    if account not in accounts:
        named = ", ".join(accounts) or "none"
        raise PreflightError(
            f"the credentials are those of account {account}, and the target allows {named}",
            hint=f"Add `accounts: ['{account}']` to the target if that is meant, or use another"
            " AWS_PROFILE.",
        )
    return account


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How things of one kind are found and deleted.

    Attributes:
        name: Field of an answer, and argument of calls.
        arn: Field whose value leads to the tags where an answer has none; empty: it has them.
        tag_list: Field of an answer that has the tags.
        alone: Arguments with which it is deleted at once, keeping nothing.
        filtered: Argument of the listing that takes the name, where it is another one.
        tagged_by: Argument of the call for tags that takes the ``arn``.
    """

    service: str = "rds"

    listing: str
    key: str
    name: str
    deleting: str
    arn: str = ""
    tag_list: str = "TagList"
    alone: tuple[tuple[str, object], ...] = ()
    filtered: str = ""
    tagged_by: str = "ResourceName"

    def listed(self, api: AwsApi, name: str = "") -> Iterator[Mapping[str, Any]]:
        """Yield what there is of this kind; of a name what has that."""
        wanted = {self.filtered or self.name: name} if name else {}
        for each in api.listed(self.service, self.listing, self.key, **wanted):
            if not name or each[self.name] == name:
                yield each


_NO_SNAPSHOT: Final = (("SkipFinalSnapshot", True),)
_NOTHING_KEPT: Final = (*_NO_SNAPSHOT, ("DeleteAutomatedBackups", True))
_WAYS: Final[Mapping[Rented, _Way]] = {
    Rented.INSTANCE: _Way(
        listing="DescribeDBInstances",
        key="DBInstances",
        name="DBInstanceIdentifier",
        deleting="DeleteDBInstance",
        alone=_NOTHING_KEPT,
    ),
    Rented.CLUSTER: _Way(
        listing="DescribeDBClusters",
        key="DBClusters",
        name="DBClusterIdentifier",
        deleting="DeleteDBCluster",
        alone=_NO_SNAPSHOT,
    ),
    Rented.CLUSTER_PARAMETER_GROUP: _Way(
        listing="DescribeDBClusterParameterGroups",
        key="DBClusterParameterGroups",
        name="DBClusterParameterGroupName",
        deleting="DeleteDBClusterParameterGroup",
        arn="DBClusterParameterGroupArn",
    ),
    Rented.PARAMETER_GROUP: _Way(
        listing="DescribeDBParameterGroups",
        key="DBParameterGroups",
        name="DBParameterGroupName",
        deleting="DeleteDBParameterGroup",
        arn="DBParameterGroupArn",
    ),
    # Its schedules go with it.
    Rented.SCHEDULES: _Way(
        service="scheduler",
        listing="ListScheduleGroups",
        key="ScheduleGroups",
        name="Name",
        deleting="DeleteScheduleGroup",
        arn="Arn",
        tag_list="Tags",
        filtered="NamePrefix",
        tagged_by="ResourceArn",
    ),
}
# What is billed, and how long after the hour it is deleted: a cluster's instance goes before it.
_DELETED_LATE: Final = {Rented.INSTANCE: timedelta(), Rented.CLUSTER: timedelta(minutes=30)}


def prefix(campaign_id: str) -> str:
    """Return how names of a campaign begin, as RDS takes them: small letters, digits, hyphens."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in campaign_id.lower())
    short = "-".join(filter(None, plain.split("-")))
    return f"steelyard-{short[-40:].strip('-')}"


class AwsMaker:
    """Makes things for one campaign in one region.

    Args:
        account: Of the region, which was allowed.
        expires: When nobody needs them any more, in UTC.
    """

    def __init__(
        self, api: AwsApi, *, account: str, campaign_id: str, expires: str, ledger: Ledger
    ) -> None:
        self.api = api
        self._account = account
        self._campaign_id = campaign_id
        self._expires = expires
        self._ledger = ledger
        self._made: list[InAws] = []
        tags = {CAMPAIGN: campaign_id, _EXPIRES: expires}
        self._tags = [{"Key": key, "Value": value} for key, value in tags.items()]

    def make(self, resource: Rented, name: str, action: str, **given: object) -> Mapping[str, Any]:
        """Note a thing, make it, and return the answer; the tags are added.

        One that is there already and carries the campaign's tag was made by a call whose answer
        was lost: it is ours.

        Raises:
            TargetError: It cannot be made, or somebody else's has the name.
        """
        thing = InAws(
            account=self._account,
            region=self.api.region,
            resource=resource,
            name=name,
            campaign_id=self._campaign_id,
        )
        self._ledger.created(thing)
        self._made.append(thing)
        way = _WAYS[resource]
        try:
            return self.api.call(way.service, action, **{way.name: name}, **given, Tags=self._tags)
        except PrivilegeError:  # so AWS made nothing, and nobody has to look for it
            self._made.remove(thing)
            self._ledger.removed(thing)
            raise
        except AwsRefusalError as error:
            said = found(thing, self.api) if error.is_there else None
            if said is None or _campaign_of(resource, said, self.api) != self._campaign_id:
                raise
            return {}

    def delete_later(self, name: str, kinds: Iterable[Rented], role: str) -> None:
        """Let AWS delete what is billed once it expires, by a one-time schedule for each.

        Args:
            name: Of what is deleted, and of the group of its schedules.
            kinds: What is made of that name.
            role: ARN under which EventBridge Scheduler deletes.

        Raises:
            TargetError: They cannot be made.
        """
        self.make(Rented.SCHEDULES, name, "CreateScheduleGroup")
        for kind in filter(_DELETED_LATE.__contains__, kinds):
            way = _WAYS[kind]
            moment = datetime.fromisoformat(self._expires) + _DELETED_LATE[kind]
            call = way.deleting[0].lower() + way.deleting[1:]
            schedule = {
                "GroupName": name,
                "Name": way.key,
                "ScheduleExpression": f"at({moment:%Y-%m-%dT%H:%M:%S})",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "ActionAfterCompletion": "DELETE",
                "Target": {
                    "Arn": f"arn:{role.split(':')[1]}:scheduler:::aws-sdk:rds:{call}",
                    "RoleArn": role,
                    # In a schedule's input it is spelled as in the SDK of Java.
                    "Input": json.dumps({way.name.replace("DB", "Db"): name, **dict(_NO_SNAPSHOT)}),
                    "RetryPolicy": {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185},
                },
            }
            try:
                self.api.call("scheduler", "CreateSchedule", **schedule)
            except AwsRefusalError as error:
                if not error.is_there:
                    raise

    def delete(self, clock: Clock) -> None:
        """Delete everything that was made, in order; what is gone is noted.

        What belongs to a server that is still there stays with it, as do the schedules, which may
        yet delete it.

        Raises:
            LeftBehindError: Something is still there.
        """
        troubles: list[str] = []
        hints: list[str] = []
        left: list[InAws] = []
        for thing in in_undoing_order(self._made):
            if thing.stays_with(left):
                continue
            try:
                undo(thing, self.api, clock)
            except SteelyardError as error:  # also that this account may not
                is_named = isinstance(error, LeftBehindError)
                troubles.append(error.message if is_named else f"{thing.label}: {error.message}")
                hints.append(error.hint)
                left.append(thing)
            else:
                self._made.remove(thing)
                self._ledger.removed(thing)
        if troubles:
            again = "Run `steelyard clean` as soon as the account answers."
            raise LeftBehindError(
                f"left behind in AWS, and billed: {'; '.join(troubles)}",
                hint=" ".join(dict.fromkeys(filter(None, (*hints, again)))),
            )


def found(thing: InAws, api: AwsApi) -> Mapping[str, Any] | None:
    """Return what AWS says of a thing; None: it is not there."""
    try:
        return next(_WAYS[thing.resource].listed(api, thing.name), None)
    except AwsRefusalError as error:
        if error.is_absent:
            return None
        raise


def _campaign_of(resource: Rented, said: Mapping[str, Any], api: AwsApi) -> str | None:
    """Return the campaign in a thing's tag; None: it carries none."""
    way = _WAYS[resource]
    listed = said.get(way.tag_list) or []
    if way.arn:
        try:
            arn = {way.tagged_by: said[way.arn]}
            answer = api.call(way.service, "ListTagsForResource", **arn)
        except AwsRefusalError as error:
            if error.is_absent:
                return None
            raise
        listed = answer.get(way.tag_list) or []
    return next((str(each["Value"]) for each in listed if each["Key"] == CAMPAIGN), None)


def undo(thing: InAws, api: AwsApi, clock: Clock) -> None:
    """Delete a thing, and return when it is not there any more.

    If it is billed and AWS did not accept its deletion here, one look is too few: all looks of a
    minute must miss it.

    Raises:
        LeftBehindError: It is there and not ours, the account is another one, or it does not go.
        TargetError: AWS refuses or does not answer.
    """
    if api.account != thing.account:
        raise LeftBehindError(
            f"{thing.label} is left behind: the credentials are those of account {api.account}",
            hint="Use the AWS_PROFILE of that account, and run `steelyard clean` again.",
        )
    trouble, absent_since_s = "it is there", None
    is_going = thing.resource not in _DELETED_LATE
    for waited_s in looks(clock, _WITHIN_S, *_POLLS_S):
        said = found(thing, api)
        if said is None:
            absent_since_s = waited_s if absent_since_s is None else absent_since_s
            if is_going or waited_s - absent_since_s >= _ABSENT_S:
                return
            continue
        absent_since_s = None
        if _campaign_of(thing.resource, said, api) != thing.campaign_id:
            raise LeftBehindError(
                f"{thing.label} is there and does not carry the tag {CAMPAIGN} ="
                f" {thing.campaign_id}: it is somebody else's, and left alone",
                hint="Look at it in the console; if it is yours, delete it there.",
            )
        is_accepted, state = _asked_to_go(thing, said, api)
        is_going, trouble = is_going or is_accepted, state or trouble
    raise LeftBehindError(
        f"{thing.label} is still there after {_WITHIN_S / 60:.0f} minutes ({trouble})",
        hint="It is billed while it is there: run `steelyard clean` again.",
    )


_STATES: Final = ("DBInstanceStatus", "Status", "State")


def _asked_to_go(thing: InAws, said: Mapping[str, Any], api: AwsApi) -> tuple[bool, str]:
    """Ask for a thing to be deleted; return whether AWS accepts that, and its state or trouble."""
    state = next((str(said[key]) for key in _STATES if said.get(key)), "")
    if state.lower() == "deleting":
        return True, state
    way = _WAYS[thing.resource]
    is_member = thing.resource is Rented.INSTANCE and bool(said.get("DBClusterIdentifier"))
    try:
        # The protection and the backups of a cluster's instance are the cluster's.
        if said.get("DeletionProtection") and not is_member:
            action = way.deleting.replace("Delete", "Modify")
            given = {way.name: thing.name, "DeletionProtection": False, "ApplyImmediately": True}
            api.call("rds", action, **given)
        alone = dict(_NO_SNAPSHOT if is_member else way.alone)
        api.call(way.service, way.deleting, **{way.name: thing.name, **alone})
    except AwsRefusalError as error:
        if error.is_absent:
            return False, ""
        if error.is_busy or state in _PASSING:
            return False, error.message
        raise
    return True, state


def tagged(api: AwsApi) -> Iterator[InAws]:
    """Yield everything in a region that carries Steelyard's tag, from AWS's own listing.

    Raises:
        PrivilegeError: The account may not list it; the action is named.
    """
    account = api.account
    for resource, way in _WAYS.items():
        for said in way.listed(api):
            name = str(said[way.name])
            # Tags of groups take a call each, and the names of ours are known.
            if way.arn and not name.startswith("steelyard-"):
                continue
            campaign = _campaign_of(resource, said, api)
            if campaign is not None:
                yield InAws(
                    account=account,
                    region=api.region,
                    resource=resource,
                    name=name,
                    campaign_id=campaign,
                )


def await_serving(
    name: str,
    api: AwsApi,
    clock: Clock,
    *,
    within_s: float = _WITHIN_S,
    told: Callable[[str], None] = lambda _: None,
) -> Mapping[str, Any]:
    """Return what AWS says of an instance once it serves and nothing is pending.

    Raises:
        TargetError: It does not come into service, or failed for good.
    """
    way, seen, begun = _WAYS[Rented.INSTANCE], "", clock.monotonic()
    for _ in looks(clock, within_s, *_POLLS_S):
        said = next(way.listed(api, name))
        state = str(said["DBInstanceStatus"])
        if state != seen:
            seen = state
            told(f"{name} is {state}")
        if state in _SERVING and not said.get("PendingModifiedValues") and not _applies(said, api):
            return said
        if state not in _PASSING | _SERVING:
            raise TargetError(
                f"the instance {name} is `{state}`, which it does not leave by itself",
                hint="Its events say why: aws rds describe-events --source-type db-instance"
                f" --source-identifier {name}.",
            )
    waited = (clock.monotonic() - begun) / 60
    raise TargetError(
        f"the instance {name} is still `{seen}` after {waited:.0f} minutes",
        hint="Try another class, zone or region: there may be no room for this one.",
    )


_NAMESPACE: Final = "AWS/RDS"
_LOOKS_S: Final = (15.0,)
_LATE: Final = 2.0  # periods behind is as much as there is


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """How a metric is asked for.

    Attributes:
        dimension: What the name is of.
    """

    name: str
    unit: str
    dimension: str = "DBInstanceIdentifier"
    period_s: float = 60.0
    statistic: str = "Average"


# "Amazon CloudWatch instance-level metrics for Amazon RDS", Amazon RDS User Guide.
_EVERY_MINUTE: Final = {
    "CPUUtilization": "%",
    "ReadIOPS": "1/s",
    "WriteIOPS": "1/s",
    "ReadThroughput": "B/s",
    "WriteThroughput": "B/s",
    "ReadLatency": "s",
    "WriteLatency": "s",
    "DiskQueueDepth": "",
    "BurstBalance": "%",
    "EBSIOBalance%": "%",
    "EBSByteBalance%": "%",
    "FreeableMemory": "B",
}
_CREDITS: Final = ("CPUCreditBalance", "CPUSurplusCreditBalance", "CPUSurplusCreditsCharged")
_FIVE_MINUTES_S: Final = 300.0  # how often credits, and what a cluster bills, are published
_OF_INSTANCES: Final = (
    *(_Metric(name=name, unit=unit) for name, unit in _EVERY_MINUTE.items()),
    *(_Metric(name=name, unit="", period_s=_FIVE_MINUTES_S) for name in _CREDITS),
)
# "Cluster-level metrics for Amazon Aurora", Amazon Aurora User Guide: every five minutes.
_OF_CLUSTERS: Final = tuple(
    _Metric(
        name=name,
        unit="",
        dimension="DBClusterIdentifier",
        period_s=_FIVE_MINUTES_S,
        statistic="Sum",
    )
    for name in BILLED_REQUESTS
)


def read_counts(
    thing: Rented, name: str, api: AwsApi, span: tuple[float, float]
) -> tuple[ProviderSeries, ...]:
    """Return what CloudWatch has of an instance, of one in a cluster also of that.

    The span is in seconds since the epoch.

    Raises:
        SteelyardError: The account may not read it, or nobody answers.
    """
    wanted = (*_OF_INSTANCES, *(_OF_CLUSTERS if thing is Rented.CLUSTER else ()))
    asked = [
        {
            "Id": f"m{place}",
            "MetricStat": {
                "Metric": {
                    "Namespace": _NAMESPACE,
                    "MetricName": metric.name,
                    "Dimensions": [{"Name": metric.dimension, "Value": name}],
                },
                "Period": round(metric.period_s),
                "Stat": metric.statistic,
            },
        }
        for place, metric in enumerate(wanted)
    ]
    longest_s = max(metric.period_s for metric in wanted)
    points: dict[str, dict[float, float]] = {}
    for each in api.listed(
        *("cloudwatch", "GetMetricData", "MetricDataResults"),
        MetricDataQueries=asked,
        StartTime=datetime.fromtimestamp(span[0] - span[0] % longest_s, UTC),
        EndTime=datetime.fromtimestamp(span[1], UTC),
    ):
        moments = (moment.timestamp() for moment in each.get("Timestamps", ()))
        known = zip(moments, each.get("Values", ()), strict=False)
        points.setdefault(each["Id"], {}).update(known)
    return tuple(
        _series(name, metric, points.get(f"m{place}", {})) for place, metric in enumerate(wanted)
    )


def _series(server: str, metric: _Metric, points: Mapping[float, float]) -> ProviderSeries:
    """Return what is known of a metric, in order of time."""
    found = sorted(points.items())
    return ProviderSeries(
        server=server,
        metric=metric.name,
        unit=metric.unit,
        period_s=metric.period_s,
        starts_s=tuple(moment for moment, _ in found),
        values=tuple(value for _, value in found),
    )


_LOAD: Final = "db.load.avg"
_BY_WAIT: Final = "db.wait_event"
_WAITS: Final = 10  # the largest; the API lists at most 25
_LOAD_PERIOD_S: Final = 60


def read_load(
    server: str, resource_id: str, api: AwsApi, span: tuple[float, float]
) -> tuple[ProviderSeries, ...]:
    """Return the active sessions of an instance, all and by wait event, as means of a minute.

    Performance Insights looks once a second. The span is in seconds since the epoch.

    Raises:
        SteelyardError: The account may not read it, or nobody answers.
    """
    points: dict[str, dict[float, float]] = {_LOAD: {}}
    for each in api.listed(
        *("pi", "GetResourceMetrics", "MetricList"),
        ServiceType="RDS",
        Identifier=resource_id,
        StartTime=datetime.fromtimestamp(span[0], UTC),
        EndTime=datetime.fromtimestamp(max(span[1], span[0] + _LOAD_PERIOD_S), UTC),
        PeriodInSeconds=_LOAD_PERIOD_S,
        MetricQueries=[{"Metric": _LOAD, "GroupBy": {"Group": _BY_WAIT, "Limit": _WAITS}}],
    ):
        told = each["Key"].get("Dimensions", {})
        words = dict.fromkeys(told.get(f"{_BY_WAIT}.{part}") for part in ("type", "name"))
        waited = ":".join(filter(None, words))  # CPU is of the type CPU
        name = f"{_LOAD} {waited}".rstrip()
        points.setdefault(name, {}).update(
            # A point stands at the end of its minute; one that is not counted has no value.
            (point["Timestamp"].timestamp() - _LOAD_PERIOD_S, point["Value"])
            for point in each.get("DataPoints", ())
            if point.get("Value") is not None
        )
    return tuple(
        _series(server, _Metric(name=name, unit="sessions", period_s=_LOAD_PERIOD_S), of_metric)
        for name, of_metric in points.items()
    )


def await_counts(
    count: Callable[[], tuple[ProviderSeries, ...]], clock: Clock, until_s: float, patience_s: float
) -> tuple[ProviderSeries, ...]:
    """Return what is counted once the last minutes are in it, which come late.

    They are waited for with that patience, in seconds, where there are any values at all.
    """
    found = count()
    for _ in looks(clock, patience_s, *_LOOKS_S):
        ends: dict[float, float] = {}
        for each in found:
            if each.starts_s:
                end = each.starts_s[-1] + (1.0 + _LATE) * each.period_s
                ends[each.period_s] = max(end, ends.get(each.period_s, 0.0))
        if all(end >= until_s for end in ends.values()):
            break
        found = count()
    return found


def _applies(said: Mapping[str, Any], api: AwsApi) -> bool:
    """Return whether parameters of an instance, or its cluster's in it, are put into force now."""
    states = {group.get("ParameterApplyStatus") for group in said.get("DBParameterGroups") or ()}
    if cluster := said.get("DBClusterIdentifier"):
        states |= {
            member.get("DBClusterParameterGroupStatus")
            for answer in _WAYS[Rented.CLUSTER].listed(api, cluster)
            for member in answer.get("DBClusterMembers") or ()
            if member.get("DBInstanceIdentifier") == said["DBInstanceIdentifier"]
        }
    return "applying" in states
