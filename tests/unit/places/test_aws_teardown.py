"""Things in an account of AWS: made with a tag, found, deleted, and never somebody else's."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from fakes.analyses import quick
from fakes.clock import FakeClock
from steelyard.campaign.cleanup import leftovers, undoing
from steelyard.cli.main import cli
from steelyard.core import wording
from steelyard.core.experiment import Configuration
from steelyard.core.outside import InAws, Outside, Rented, in_undoing_order
from steelyard.core.target import AuroraTarget, RdsTarget, RentedTarget
from steelyard.gateways.aws import Aws, AwsApi, AwsRefusalError
from steelyard.gateways.doors import system_doors
from steelyard.gateways.host import Clock
from steelyard.places.aws import (
    AwsMaker,
    await_serving,
    found,
    prefix,
    read_load,
    require_account,
    tagged,
    undo,
)
from steelyard.systems.postgres.factory import Bounds
from steelyard.targets.prices import load_prices
from steelyard.targets.rds import ParameterGroup, priced, steps
from support.aws import ACCOUNT, REGION, Account, an_account
from support.recorded_host import RECORDINGS

# Faults of the gate; `STEELYARD_AWS_FAULTS=200` tries more.
FAULTS = int(os.environ.get("STEELYARD_AWS_FAULTS", "5"))
CLOCK = Clock()
ROLE = f"arn:aws:iam::{ACCOUNT}:role/steelyard-delete"


class Killed(BaseException):
    """Steelyard dies: nothing after it runs."""


class Noted:
    """A ledger that keeps what it is told, as the registry does over a death."""

    def __init__(self) -> None:
        self.things: list[InAws] = []

    def created(self, thing: Outside) -> None:
        """Keep it."""
        assert isinstance(thing, InAws)
        self.things.append(thing)

    def removed(self, thing: Outside) -> None:
        """Forget it."""
        assert isinstance(thing, InAws)
        self.things.remove(thing)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """Serve an empty account, which answers at once."""
    monkeypatch.setattr("steelyard.places.aws._POLLS_S", (0.1,))
    monkeypatch.setattr("steelyard.places.aws._ABSENT_S", 0.3)
    with an_account(monkeypatch) as served:
        yield served


@pytest.fixture
def api(account: Account) -> AwsApi:
    """Return a region of it, as the product reaches it."""
    return Aws().connect(REGION)


def a_maker(api: AwsApi, ledger: Noted, campaign: str = "hourly-3f9a2c") -> AwsMaker:
    """Return what makes things for a campaign."""
    return AwsMaker(
        api, account=ACCOUNT, campaign_id=campaign, expires="2026-11-25T00:00:00Z", ledger=ledger
    )


def make_all(
    maker: AwsMaker,
    campaign: str = "hourly-3f9a2c",
    *,
    target: RentedTarget = RdsTarget(),  # noqa: B008 - it is frozen
    protected: bool = False,
) -> str:
    """Make all that a target has; return the one name of it."""
    name = f"{prefix(campaign)}-1"
    made = [*steps(target, name, "benchbench1")]
    if target.delete_role:
        maker.delete_later(name, [resource for resource, _, _ in made], target.delete_role)
    for resource, action, given in made:
        more = {"DeletionProtection": protected} if "DeletionProtection" in given else {}
        maker.make(resource, name, action, **{**given, **more})
    return name


def a_strangers(api: AwsApi, name: str = "payroll") -> None:
    """Make an instance without a tag."""
    api.call(
        "rds",
        "CreateDBInstance",
        DBInstanceIdentifier=name,
        Engine="postgres",
        DBInstanceClass="db.t4g.small",
        AllocatedStorage=20,
        MasterUsername="boss",
        MasterUserPassword="benchbench1",
    )


def instances(api: AwsApi) -> list[str]:
    """Return the names of all instances."""
    listed = api.listed("rds", "DescribeDBInstances", "DBInstances")
    return sorted(str(each["DBInstanceIdentifier"]) for each in listed)


def schedules(api: AwsApi) -> list[Mapping[str, Any]]:
    """Return all schedules, whole, by name."""
    listed = api.listed("scheduler", "ListSchedules", "Schedules")
    found = [
        api.call("scheduler", "GetSchedule", Name=each["Name"], GroupName=each["GroupName"])
        for each in listed
    ]
    return sorted(found, key=lambda each: str(each["Name"]))


@pytest.mark.slow
def test_aws_is_asked_to_delete_what_is_billed(api: AwsApi, account: Account) -> None:
    """At the hour of the tag, the cluster after its instance, before either is made."""
    maker = a_maker(api, Noted())
    name = make_all(maker, target=AuroraTarget(delete_role=ROLE))
    cluster, instance = schedules(api)
    assert instance["ScheduleExpression"] == "at(2026-11-25T00:00:00)"
    assert cluster["ScheduleExpression"] == "at(2026-11-25T00:30:00)"
    asked = instance["Target"]
    assert asked["Arn"] == "arn:aws:scheduler:::aws-sdk:rds:deleteDBInstance"
    assert asked["RoleArn"] == ROLE
    assert json.loads(asked["Input"]) == {"DbInstanceIdentifier": name, "SkipFinalSnapshot": True}
    assert cluster["Target"]["Arn"].endswith(":rds:deleteDBCluster")
    assert account.calls.index("rds:CreateDBCluster") > account.calls.index("scheduler:")
    make_all(maker, target=AuroraTarget(delete_role=ROLE))  # answers were lost: no second one
    assert len(schedules(api)) == 2
    maker.delete(CLOCK)
    assert [*tagged(api)] == []


@pytest.mark.slow
def test_active_sessions_are_read_by_what_they_wait_for(api: AwsApi, account: Account) -> None:
    """Means of a minute, which stand at its beginning here; a minute without a look is none."""
    name = make_all(a_maker(api, Noted()))
    account.looks[name] = [
        (120.0, Counter({("CPU", "CPU"): 1, ("Lock", "tuple"): 2})),
        (150.0, Counter({("CPU", "CPU"): 1})),
        (240.0, Counter({("Lock", "tuple"): 1})),
    ]
    said = found(
        InAws(account=ACCOUNT, region=REGION, resource=Rented.INSTANCE, name=name, campaign_id="x"),
        api,
    )
    assert said is not None
    load = {
        each.metric: each for each in read_load(name, said["DbiResourceId"], api, (125.0, 300.0))
    }
    assert load["db.load.avg"].starts_s == (120.0, 240.0)
    assert load["db.load.avg"].values == (2.0, 1.0)
    assert load["db.load.avg CPU"].values == (1.0, 0.0)
    assert load["db.load.avg Lock:tuple"].values == (1.0, 1.0)


def test_what_was_made_is_waited_for_and_deleted(api: AwsApi, account: Account) -> None:
    """Through `creating`, with protection against deletion, and `deleting`."""
    account.create_s, account.delete_s = 0.7, 0.7
    ledger, states = Noted(), []
    maker = a_maker(api, ledger)
    name = make_all(maker, protected=True)
    said = await_serving(name, api, CLOCK, told=states.append)
    assert said["DBInstanceStatus"] == "available"
    assert states[0] == f"{name} is creating"
    assert [each.resource for each in ledger.things] == [Rented.PARAMETER_GROUP, Rented.INSTANCE]
    assert account.calls.index("rds:CreateDBParameterGroup") < account.calls.index(
        "rds:CreateDBInstance"
    )
    maker.delete(CLOCK)
    assert ledger.things == []
    assert [*tagged(api)] == []
    maker.delete(CLOCK)  # a second time changes nothing


def test_a_cluster_goes_with_all_that_belongs_to_it(api: AwsApi, account: Account) -> None:
    """Its instance first, then the cluster, whose protection is taken off, then both groups."""
    account.delete_s = 0.4
    ledger = Noted()
    maker = a_maker(api, ledger)
    target = AuroraTarget(instance_class="db.serverless", io_optimized=True, delete_role=ROLE)
    name = make_all(maker, target=target, protected=True)
    await_serving(name, api, CLOCK)
    (cluster,) = api.listed("rds", "DescribeDBClusters", "DBClusters")
    assert (cluster["Engine"], cluster["StorageType"]) == ("aurora-postgresql", "aurora-iopt1")
    assert cluster["ServerlessV2ScalingConfiguration"] == {"MinCapacity": 0.5, "MaxCapacity": 4.0}
    assert {each.resource for each in tagged(api)} == set(Rented)
    maker.delete(CLOCK)
    assert [*tagged(api)] == []
    assert schedules(api) == []
    gone = [each for each in account.calls if each.startswith("rds:Delete")]
    assert list(dict.fromkeys(gone)) == [
        "rds:DeleteDBInstance",
        "rds:DeleteDBCluster",
        "rds:DeleteDBParameterGroup",
        "rds:DeleteDBClusterParameterGroup",
    ]


def test_settings_of_a_cluster_go_where_they_belong(api: AwsApi) -> None:
    """Into the instance's group what that has, into the cluster's what it has not."""
    target = AuroraTarget()
    name = make_all(a_maker(api, Noted()), target=target)
    group = ParameterGroup(target, name, api, system_doors())
    wide = {"work_mem": "9MB", "default_statistics_target": "200"}
    for wanted in (wide, {"work_mem": "9MB"}):
        group.change(wanted)
        own = api.listed("rds", "DescribeDBParameters", "Parameters", DBParameterGroupName=name)
        assert {each["ParameterName"] for each in own} == {"work_mem"}
        shared = api.listed(
            *("rds", "DescribeDBClusterParameters", "Parameters"), DBClusterParameterGroupName=name
        )
        assert {each["ParameterName"] for each in shared} == wanted.keys() - {"work_mem"}


def test_values_of_a_file_are_written_in_the_units_of_the_server(api: AwsApi) -> None:
    """A parameter group takes bare numbers: pages of 8 kB, kB, MB, seconds, milliseconds."""
    text = (RECORDINGS.parent / "foreign" / "kubernetes" / "rds.yaml").read_text()
    settings = YAML(typ="safe", pure=True).load(text)["configurations"]["b"]["postgres"]
    sizes = {"effective_cache_size": 786432, "shared_buffers": 262144, "temp_buffers": 2048}
    units = {
        "8kB": {**sizes, "wal_buffers": 2048},
        "kB": {"work_mem": 8192},
        "MB": {"max_wal_size": 4096},
        "s": {"checkpoint_timeout": 900},
        "ms": {"log_min_duration_statement": 1000},
        None: {"random_page_cost": 1.1},
    }
    bounds = {
        name: Bounds(unit=u, low=-1, high=1e12) for u, names in units.items() for name in names
    }
    kinds = {**dict.fromkeys(bounds, "integer"), "huge_pages": "enum", "fsync": "bool"}
    entries = {name: SimpleNamespace(kind=kind, context="sighup") for name, kind in kinds.items()}
    target = RdsTarget()
    name = make_all(a_maker(api, Noted()), target=target)
    group = ParameterGroup(target, name, api, system_doors())
    group.server = SimpleNamespace(catalogue=entries, bounds=bounds)  # type: ignore[assignment]
    group.change({key: str(value) for key, value in settings.items()})
    own = api.listed("rds", "DescribeDBParameters", "Parameters", DBParameterGroupName=name)
    written = {"huge_pages": "on", "fsync": "0", "rds.force_ssl": "1"}
    for names in units.values():
        written |= {name: str(value) for name, value in names.items()}
    assert {each["ParameterName"]: each["ParameterValue"] for each in own} == written


def test_a_cluster_has_its_price() -> None:
    """Of instance and storage; a serverless one of its most capacity; requests beside them."""
    files = load_prices(None)
    told = {}
    for name, target in {
        "standard": AuroraTarget(region=REGION, instance_class="db.t3.large"),
        "optimized": AuroraTarget(region=REGION, instance_class="db.t3.large", io_optimized=True),
        "serverless": AuroraTarget(region=REGION, instance_class="db.serverless"),
    }.items():
        configuration = Configuration(name=name, target=target)
        experiment = replace(quick().experiment, configurations=(configuration,))
        (found,) = priced(experiment, lambda: files).configurations
        assert found.target.cost is not None
        told[name] = {each.name: each.per_hour for each in found.target.cost.parts}
    assert told["standard"]["instance"] == pytest.approx(0.164)
    assert told["optimized"]["instance"] == pytest.approx(0.164 * 1.3)
    assert told["serverless"]["instance"] == pytest.approx(4 * 0.12)
    assert told["standard"]["storage"] == pytest.approx(10 * 0.10 / 730)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FAULTS))
def test_a_death_anywhere_leaves_nothing_that_is_not_found(
    api: AwsApi, account: Account, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Killed before or after any call; journal kept or lost; calls throttled; a stranger beside."""
    chance = random.Random(seed)  # noqa: S311 - a seed of a test
    a_strangers(api)
    ledger = Noted()
    maker, real = a_maker(api, ledger), api.call
    role = chance.choice([ROLE, None])
    target = chance.choice([RdsTarget(delete_role=role), AuroraTarget(delete_role=role)])
    left, after = chance.randrange(8), chance.random() < 0.5

    def dying(service: str, action: str, **given: object) -> object:
        nonlocal left
        if not action.startswith("Create"):
            return real(service, action, **given)
        left -= 1
        if left < 0 and not after:
            raise Killed
        answer = real(service, action, **given)
        if left < 0:
            raise Killed
        return answer

    monkeypatch.setattr(api, "call", dying)
    with suppress(Killed):
        make_all(maker, target=target, protected=chance.random() < 0.5)
    monkeypatch.setattr(api, "call", real)
    account.delete_s = chance.choice([0.0, 0.6])
    account.throttled = {"rds:DeleteDBInstance": chance.randrange(3), "rds:DescribeDBInstances": 1}
    is_lost = chance.random() < 0.4
    things = [*tagged(api)] if is_lost else [*ledger.things]
    for thing in sorted(things, key=lambda each: list(Rented).index(each.resource)):
        undo(thing, api, CLOCK)
    assert [*tagged(api)] == []
    assert schedules(api) == []
    assert instances(api) == ["payroll"]


def test_a_lost_answer_is_no_second_instance(api: AwsApi) -> None:
    """The name is there and carries our tag: it is ours; a stranger's of that name is not."""
    maker = a_maker(api, Noted())
    name = make_all(maker)
    make_all(maker)
    assert instances(api) == [name]
    other = f"{prefix('other-1')}-1"
    a_strangers(api, other)
    with pytest.raises(AwsRefusalError, match="DBInstanceAlreadyExists"):
        make_all(a_maker(api, Noted(), "other-1"), "other-1")


def test_without_the_tag_nothing_is_deleted(api: AwsApi) -> None:
    """Whatever a registry says: it is named, and left alone."""
    a_strangers(api)
    thing = InAws(
        account=ACCOUNT,
        region=REGION,
        resource=Rented.INSTANCE,
        name="payroll",
        campaign_id="hourly-3f9a2c",
    )
    with pytest.raises(wording.LeftBehindError, match="somebody else's, and left alone"):
        undo(thing, api, CLOCK)
    assert found(thing, api) is not None


_ABSENT = AwsRefusalError("it is not there", code="DBInstanceNotFound")


@pytest.mark.parametrize("target", [RdsTarget(), AuroraTarget()], ids=["rds", "aurora"])
@pytest.mark.parametrize("answer", [{"DBInstances": []}, _ABSENT], ids=["empty", "not found"])
@pytest.mark.parametrize("late", [1, 3])
def test_one_look_that_misses_a_server_does_not_forget_it(
    api: AwsApi,
    monkeypatch: pytest.MonkeyPatch,
    target: RentedTarget,
    answer: dict[str, object] | AwsRefusalError,
    late: int,
) -> None:
    """AWS lists it some looks later: it is deleted then, and only then is it out of the ledger."""
    ledger = Noted()
    maker, real = a_maker(api, ledger), api.call
    make_all(maker, target=target)
    missing = late

    def call(service: str, action: str, **given: object) -> object:
        nonlocal missing
        if action == "DescribeDBInstances" and missing:
            missing -= 1
            if isinstance(answer, AwsRefusalError):
                raise answer
            return answer
        return real(service, action, **given)

    def listed(service: str, action: str, key: str, **given: object) -> Iterator[object]:
        said = call(service, action, **given)
        yield from said[key]  # type: ignore[index]

    monkeypatch.setattr(api, "call", call)
    monkeypatch.setattr(api, "listed", listed)
    maker.delete(CLOCK)
    assert (missing, ledger.things) == (0, [])
    monkeypatch.undo()
    assert instances(api) == []


def test_a_server_that_was_never_seen_is_looked_for_a_minute(
    api: AwsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that AWS began to delete is gone at the first look that misses it; so is a group."""
    monkeypatch.setattr("steelyard.places.aws._ABSENT_S", 60.0)
    monkeypatch.setattr("steelyard.places.aws._POLLS_S", (0.5, 2.0, 5.0, 15.0))
    waited = {}
    for resource in (Rented.INSTANCE, Rented.CLUSTER, Rented.PARAMETER_GROUP):
        clock = FakeClock()
        undo(
            InAws(account=ACCOUNT, region=REGION, resource=resource, name="x-1", campaign_id="x"),
            api,
            clock,
        )
        waited[resource] = sum(clock.slept)
    assert waited == {
        Rented.INSTANCE: 67.5,  # 0.5 + 2 + 5 + 4 x 15
        Rented.CLUSTER: 67.5,
        Rented.PARAMETER_GROUP: 0,
    }
    maker, clock = a_maker(api, Noted()), FakeClock()
    make_all(maker)
    maker.delete(clock)
    assert sum(clock.slept) < 5.0


def test_another_account_is_not_touched(api: AwsApi) -> None:
    """Neither for making, nor for deleting."""
    assert require_account(api, (ACCOUNT,)) == ACCOUNT
    with pytest.raises(wording.PreflightError, match="the target allows none"):
        require_account(api, ())
    thing = InAws(
        account="210987654321",
        region=REGION,
        resource=Rented.INSTANCE,
        name="steelyard-x-1",
        campaign_id="x",
    )
    with pytest.raises(
        wording.LeftBehindError, match=f"credentials are those of account {ACCOUNT}"
    ):
        undo(thing, api, CLOCK)


def test_a_missing_permission_is_named_as_a_policy_has_it(api: AwsApi, account: Account) -> None:
    """And the way out."""
    account.denied.add("rds:CreateDBInstance")
    ledger = Noted()
    with pytest.raises(wording.PrivilegeError, match="may not do rds:CreateDBInstance") as denied:
        make_all(a_maker(api, ledger))
    # What was denied is not there, so nobody looks for it for a minute.
    assert [each.resource for each in ledger.things] == [Rented.PARAMETER_GROUP]
    assert "Add rds:CreateDBInstance to its policy" in denied.value.hint


def test_wrong_credentials_are_told(account: Account, api: AwsApi) -> None:
    """No account, whatever was asked."""
    account.rejects_credentials = True
    with pytest.raises(wording.LoginError, match="InvalidClientTokenId"):
        _ = api.account


def test_no_credentials_are_told(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(wording.LoginError, match="no credentials for AWS"):
        _ = Aws().connect(REGION).account


def test_throttled_calls_are_made_again(api: AwsApi, account: Account) -> None:
    """Twice refused, the third time answered."""
    account.throttled = {"rds:DescribeDBInstances": 2}
    assert instances(api) == []
    assert account.calls.count("rds:DescribeDBInstances") == 3


def test_an_instance_that_never_serves_is_given_up(api: AwsApi, account: Account) -> None:
    """After the time that it has; one that failed at once. Both are deleted then."""
    account.create_s = None
    maker = a_maker(api, Noted())
    name = make_all(maker)
    with pytest.raises(wording.TargetError, match="is still `creating`"):
        await_serving(name, api, CLOCK, within_s=1.0)
    maker.delete(CLOCK)
    assert instances(api) == []


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch, account: Account) -> None:
    """The address is wrong: said so, with what to check."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("steelyard.gateways.aws._TRIES", 1)
    with pytest.raises(wording.TargetError, match="got no answer"):
        _ = Aws().connect(REGION).account


def test_names_follow_from_the_campaign() -> None:
    """As RDS takes them: small letters, digits, single hyphens, a letter first."""
    assert prefix("20261124-Huge_Pages-3f9a2c") == "steelyard-20261124-huge-pages-3f9a2c"
    assert len(prefix("x" * 200)) <= 60


def a_product(usage: str, amount: str, **attributes: str) -> str:
    """Return a product as the Price List API gives it."""
    return json.dumps(
        {
            "product": {"attributes": {"usagetype": usage, **attributes}},
            "terms": {
                "OnDemand": {
                    "a": {
                        "priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": {"USD": amount}}}
                    }
                }
            },
        }
    )


def test_prices_of_a_region_come_from_the_price_list(
    account: Account, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is listed and understood; what is not listed stays unknown, other regions stay."""
    account.products = [
        a_product("EUC1-InstanceUsage:db.r6g.large", "0.2700000000", databaseEngine="PostgreSQL"),
        a_product("EUC1-InstanceUsage:db.r6g.large", "0.3100000000", databaseEngine="MySQL"),
        a_product("EUC1-Multi-AZUsage:db.r6g.large", "0.5400000000", databaseEngine="PostgreSQL"),
        a_product("EUC1-RDS:GP3-Storage", "0.1370000000"),
        a_product("EUC1-Aurora:StorageIOUsage", "0.0000002200"),
    ]
    cli.main(["prices", "--update", "--region", "eu-central-1"], standalone_mode=False)
    (tmp_path / "prices.yaml").write_text(capsys.readouterr().out)
    prices = load_prices(tmp_path / "prices.yaml")
    found = prices.of("eu-central-1")
    assert found.rds.instance_hour == {"db.r6g.large": 0.27}
    assert found.rds.storage_gib_month == {"gp3": 0.137}
    assert found.aurora.io_per_million == {"standard": pytest.approx(0.22)}
    assert prices.of("us-east-1") == load_prices().of("us-east-1")
    account.products = []
    with pytest.raises(wording.InputError, match="lists no price of nowhere-1"):
        cli.main(["prices", "--update", "--region", "nowhere-1"], standalone_mode=False)


def test_a_price_file_with_mistakes_is_told_with_all_of_them(tmp_path: Path) -> None:
    """And one that is not there, or no YAML."""
    wrong = tmp_path / "prices.yaml"
    wrong.write_text("version: 2\nretrieved: 2026-01-01\ncurrency: dollars\nregions: {}\n")
    with pytest.raises(wording.InputError) as refused:
        load_prices(wrong)
    for place in ("version", "currency", "hours_per_month", "least_seconds"):
        assert f"  {place}: " in refused.value.message
    wrong.write_text("a: [")
    with pytest.raises(wording.InputError, match="is no YAML"):
        load_prices(wrong)
    with pytest.raises(wording.InputError, match="is not there"):
        load_prices(tmp_path / "other.yaml")


def test_one_refused_action_keeps_nothing_else(api: AwsApi, account: Account) -> None:
    """What belongs to the server stays with it, and so do the schedules, which may delete it."""
    ledger = Noted()
    maker = a_maker(api, ledger)
    target = RdsTarget(delete_role="arn:aws:iam::123456789012:role/delete")
    make_all(maker, target=target)
    account.denied.add("rds:DeleteDBInstance")
    with pytest.raises(wording.LeftBehindError, match="may not do rds:DeleteDBInstance") as told:
        maker.delete(CLOCK)
    assert "Add rds:DeleteDBInstance to its policy" in told.value.hint
    assert "steelyard clean" in told.value.hint
    assert {thing.resource for thing in ledger.things} >= {Rented.INSTANCE, Rented.SCHEDULES}
    assert len(instances(api)) == 1
    assert schedules(api)
    account.denied.clear()
    maker.delete(CLOCK)
    assert ledger.things == []


def test_clean_keeps_what_a_server_that_stays_needs(
    api: AwsApi, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a death, by the record or by the tag: the schedules are not deleted before it is."""
    maker = a_maker(api, Noted())
    make_all(maker, target=RdsTarget(delete_role=ROLE))
    account.denied.add("rds:DeleteDBInstance")
    doors = replace(system_doors(), aws=Aws())
    monkeypatch.setattr(undoing, "undo_thing", lambda thing, _: undo(thing, api, CLOCK))
    things = in_undoing_order(tagged(api))
    with pytest.raises(wording.LeftBehindError, match="rds:DeleteDBInstance"):
        undoing.undo_all_of(things, doors)
    nowhere = SimpleNamespace(things=tuple(things), record=None)
    (same,) = leftovers._undone(nowhere, doors)  # type: ignore[arg-type]
    assert "rds:DeleteDBInstance" in same.message
    assert schedules(api)
