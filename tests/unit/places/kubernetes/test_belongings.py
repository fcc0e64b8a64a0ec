"""What a campaign makes in a cluster is announced, labelled, owned, and gone afterwards."""

import json
from typing import Any

import pytest

from fakes.belonging import CAMPAIGN_ID, ToldLedger
from fakes.clock import FakeClock
from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core import kubernetes as k8s
from steelyard.core.wording import LeftBehindError, PreflightError, PrivilegeError
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.undoing import undo

_ANCHOR = "ConfigMap bench/steelyard-trial-0a1b2c"


def _pod(name: str = "p") -> k8s.Manifest:
    return k8s.POD.manifest(
        name, labels={"own": "kept"}, spec={"containers": [{"name": "c", "image": "i"}]}
    )


def _ref(name: str = "p") -> k8s.ObjectRef:
    return k8s.ObjectRef(kind=k8s.POD, name=name, namespace="bench")


def test_what_is_made_has_labels_and_an_owner(
    belongings: Belongings, api: FakeKubernetesApi
) -> None:
    """The campaign's label, the role and the anchor are on it, and its own labels stay."""
    made = belongings.make(_pod(), role="generator")
    labels = made["metadata"]["labels"]
    assert (labels["own"], labels[k8s.CAMPAIGN], labels[k8s.ROLE]) == (
        "kept",
        CAMPAIGN_ID,
        "generator",
    )
    (owner,) = made["metadata"]["ownerReferences"]
    anchor = api.get(k8s.CONFIG_MAP, "steelyard-trial-0a1b2c", "bench")
    assert owner["uid"] == anchor["metadata"]["uid"]


def test_the_ledger_hears_of_it_before_the_cluster(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger
) -> None:
    """What the cluster refuses was announced: a death in between leaves nothing unknown."""
    api.reject(k8s.POD, PreflightError("quota"))
    with pytest.raises(PreflightError):
        belongings.make(_pod())
    assert ledger.placements == [_ANCHOR + " in lab", "Pod bench/p in lab"]


def test_an_object_that_is_made_again_is_announced_once(
    belongings: Belongings, ledger: ToldLedger
) -> None:
    """A changed manifest is the same object."""
    belongings.make(_pod())
    belongings.make(_pod())
    assert ledger.placements.count("Pod bench/p in lab") == 1


def test_removing_all_leaves_nothing_and_tells_so(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger
) -> None:
    """Objects, anchor and the ledger's list are gone, the namespace of others is not."""
    belongings.make(_pod("a"))
    belongings.make(_pod("b"))
    belongings.remove_all()
    assert not ledger.now
    assert not api.list(k8s.POD, "bench")
    assert not api.list(k8s.CONFIG_MAP, "bench")
    assert api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name="bench")) is not None


def test_a_namespace_of_its_own_goes_last(
    api: FakeKubernetesApi, ledger: ToldLedger, clock: FakeClock
) -> None:
    """Everything in it is told to go first."""
    own = Belongings(api, ledger, CAMPAIGN_ID, "own", clock=clock)
    own.make_namespace()
    own.make(_pod())
    own.remove_all()
    assert api.labels_of("delete")[:3] == [
        "Pod own/p",
        "ConfigMap own/steelyard-trial-0a1b2c",
        "Namespace own",
    ]
    assert not ledger.now


def test_what_cannot_be_removed_keeps_nothing_else(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger
) -> None:
    """A class that may not be deleted is named, and stays in the ledger; the rest goes."""
    belongings.make(_pod())
    belongings.make(
        {
            "apiVersion": k8s.STORAGE_CLASS.api_version,
            "kind": k8s.STORAGE_CLASS.name,
            "metadata": {"name": "slow", "namespace": ""},
            "provisioner": "p",
        }
    )
    api.refuse("delete", k8s.STORAGE_CLASS)
    with pytest.raises(LeftBehindError, match="delete storageclasses"):
        belongings.remove_all()
    assert list(ledger.now) == ["StorageClass slow in lab"]
    api.permit()
    belongings.remove_all()
    assert not ledger.now


def test_pods_go_with_their_anchor(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger
) -> None:
    """The cluster itself takes away what belongs to the anchor, whoever may not delete it."""
    belongings.make(_pod())
    api.refuse("delete", k8s.POD)
    belongings.remove_all()
    assert not api.list(k8s.POD, "bench")
    assert not ledger.now


def test_an_object_of_the_same_name_is_left_alone(
    belongings: Belongings, api: FakeKubernetesApi
) -> None:
    """Without the campaign's label nothing is deleted."""
    belongings.make(_pod())
    api.get(k8s.POD, "p", "bench")["metadata"]["labels"][k8s.CAMPAIGN] = "another"
    with pytest.raises(LeftBehindError, match="does not carry the label"):
        belongings.remove(_ref())
    assert api.read(_ref()) is not None


def test_an_object_that_does_not_go_is_told_with_its_finalizers(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """Waiting ends, and says for whom the object waits."""
    belongings.make(_pod())
    api.get(k8s.POD, "p", "bench")["metadata"]["finalizers"] = ["somebody/holds-it"]
    api.delete = lambda *_, **__: True  # type: ignore[method-assign]
    with pytest.raises(LeftBehindError, match="somebody/holds-it"):
        belongings.remove(_ref())
    assert sum(clock.slept) > 100


def test_an_altered_object_is_put_back_once_and_first(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger
) -> None:
    """The first change is noted with what was there; later ones change nothing of that."""
    api.put(k8s.CONFIG_MAP.manifest("theirs", namespace="bench", data={"a": "1"}))
    theirs = k8s.ObjectRef(kind=k8s.CONFIG_MAP, name="theirs", namespace="bench")
    before = {"data": {"a": "1", "b": None}}
    belongings.alter(theirs, {"data": {"a": "2"}}, before=before)
    belongings.alter(theirs, {"data": {"b": "3"}}, before={"data": {"a": "2"}})
    (noted,) = ledger.now.values()
    assert json.loads(noted.before) == before
    belongings.remove_all()
    assert api.get(k8s.CONFIG_MAP, "theirs", "bench")["data"] == {"a": "1"}
    assert not ledger.now


def test_clean_undoes_from_the_ledger_alone(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger, clock: FakeClock
) -> None:
    """After a death what the ledger knows is enough, and twice is no error."""
    belongings.make(_pod())
    for thing in [*reversed(ledger.now.values()), *ledger.now.values()]:
        undo(thing, api, clock=clock)
    assert not api.list(k8s.POD, "bench")
    assert not api.list(k8s.CONFIG_MAP, "bench")


def test_a_lost_connection_while_something_goes_is_waited_for(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """An API that is away for a moment is no reason to call something left behind."""
    made = belongings.make(_pod())
    api.get(k8s.POD, "p", "bench")["metadata"]["finalizers"] = ["later"]
    deleted = api.delete

    def delete(ref: k8s.ObjectRef, *, grace_s: int | None = None) -> bool:
        there = deleted(ref, grace_s=grace_s)
        api.lose_connection(2, "read")
        api.lose(k8s.POD, "p", "bench")
        return there

    api.delete = delete  # type: ignore[method-assign]
    belongings.remove(_ref())
    assert made["metadata"]["name"] == "p"


def test_a_missing_verb_is_named(belongings: Belongings, api: FakeKubernetesApi) -> None:
    """Who may not make pods is told so before anything else happens."""
    api.refuse("patch", k8s.POD)
    with pytest.raises(PrivilegeError, match="patch pods"):
        belongings.make(_pod())


def _other(api: FakeKubernetesApi, namespace: str = "own") -> Belongings:
    return Belongings(api, ToldLedger(), "other-1", namespace, clock=FakeClock())


def test_a_namespace_that_another_made_meanwhile_is_not_taken_over(
    api: FakeKubernetesApi, ledger: ToldLedger, clock: FakeClock
) -> None:
    """Of two campaigns that both found it absent the second stops; the label stays the first's."""
    first, second = _other(api), Belongings(api, ledger, CAMPAIGN_ID, "own", clock=clock)
    first.make_namespace()
    with pytest.raises(PreflightError, match="this campaign did not make it"):
        second.make_namespace()
    assert not ledger.now
    second.remove_all()
    assert api.get(k8s.NAMESPACE, "own")["metadata"]["labels"][k8s.CAMPAIGN] == "other-1"


def test_an_anchor_of_another_is_not_taken_over(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger
) -> None:
    """A ConfigMap of the anchor's name without the label keeps its content and is not listed."""
    name = {"name": "steelyard-trial-0a1b2c", "namespace": "bench"}
    api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"a": "b"}})
    with pytest.raises(PreflightError, match="did not make it"):
        belongings.make(_pod())
    assert api.get(k8s.CONFIG_MAP, name["name"], "bench")["data"] == {"a": "b"}
    assert not ledger.now


def test_an_anchor_of_its_own_is_gone_on_with(
    belongings: Belongings, api: FakeKubernetesApi
) -> None:
    """A creation whose answer was lost, and was repeated, found what it had made."""
    belongings.anchor()
    again = Belongings(api, ToldLedger(), CAMPAIGN_ID, "bench", clock=FakeClock())
    assert again.anchor() == belongings.anchor()


@pytest.mark.parametrize(
    "stranger",
    [
        k8s.CLAIM.manifest("keep"),
        k8s.DEPLOYMENT.manifest("keep"),
        k8s.SECRET.manifest("keep", labels={k8s.MANAGED_BY: k8s.MANAGER, k8s.CAMPAIGN: "other-1"}),
    ],
)
def test_a_namespace_with_things_of_others_is_kept(
    api: FakeKubernetesApi, ledger: ToldLedger, clock: FakeClock, stranger: dict[str, Any]
) -> None:
    """A person's volume or workload and another campaign's Secret keep it; what is ours goes."""
    own = Belongings(api, ledger, CAMPAIGN_ID, "own", clock=clock)
    own.make_namespace()
    own.make(_pod())
    api.put({**stranger, "metadata": {**stranger["metadata"], "namespace": "own"}})
    with pytest.raises(LeftBehindError, match=r"is kept, because others have .* own/keep"):
        own.remove_all()
    assert list(ledger.now) == ["Namespace own in lab"]
    assert not api.list(k8s.POD, "own")
    api.lose(k8s.Kind(api_version=stranger["apiVersion"], name=stranger["kind"]), "keep", "own")
    own.remove_all()
    assert not ledger.now


def test_a_namespace_into_which_it_may_not_look_is_kept(
    api: FakeKubernetesApi, ledger: ToldLedger, clock: FakeClock
) -> None:
    """Whether there are volumes of others is not guessed."""
    own = Belongings(api, ledger, CAMPAIGN_ID, "own", clock=clock)
    own.make_namespace()
    api.refuse("list", k8s.CLAIM)
    with pytest.raises(LeftBehindError, match="cannot be seen"):
        own.remove_all()
    assert api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name="own")) is not None
