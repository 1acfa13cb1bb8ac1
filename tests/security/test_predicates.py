"""Functions of requests limit what roles grant: where the client is, on each request, publication and delivery."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead import Bus, Notification
from fairlead.errors import Forbidden, PolicyError
from fairlead.rules.access import Access
from fairlead.security import AccessPolicy, Principal
from fairlead.security.predicates import Predicate, Request
from fairlead_lab.testing.guarded import POLICY, Guarded

HERE = f"{__name__}:"
LONG = "x" * 1_000


def small(request: Request, most: int) -> bool:
    """The book's example: the size of a message."""
    return request.size <= most


def modest(request: Request) -> bool:
    """A function of the request itself: nobody subscribes to everything."""
    return request.filter is None or str(request.filter) != "true"


def broken(request: Request) -> bool:
    raise ValueError(f"secret {request.notification}")


def even(request: Request) -> bool:
    return request.notification is None or request.notification.get("n") % 2 == 0


def policy(*predicates: str, **more: Any) -> AccessPolicy:
    ada = {
        "members": ["ada"],
        "subscribe": ["n > 0"],
        "publish": ["true"],
        "predicates": [*predicates],
        **more,
    }
    bob = {"members": ["bob"], "subscribe": ["true"], "publish": ["true"]}
    return AccessPolicy.of({"roles": {"ada": ada, "bob": bob}})


@pytest.mark.parametrize("order", ["live", "ordered"])
def test_what_is_too_large_for_one_is_delivered_to_another(order: Any) -> None:
    got: dict[str, list[int]] = {"ada": [], "bob": []}
    with Bus(rules=[Access(policy(f"{HERE}small(1000)"))], order=order) as bus:
        for name, numbers in got.items():
            bus.subscribe("n > 0", lambda each, to=numbers: to.append(each.get("n")), subscriber=name)
        for number, text in enumerate(("short", LONG, "short"), start=1):
            bus.publish({"producer": "bob", "id": str(number), "n": number, "text": text})
    assert got == {"ada": [1, 3], "bob": [1, 2, 3]}


def test_publications_and_requests_are_asked_about_too() -> None:
    with Bus(rules=[Access(policy(f"{HERE}even", f"{HERE}modest"))]) as bus:
        bus.publish({"producer": "ada", "n": 2})
        with pytest.raises(Forbidden):
            bus.publish({"producer": "ada", "n": 3})
        with pytest.raises(Forbidden):
            bus.subscribe("true", subscriber="ada")
        assert bus.subscribe("n > 5", subscriber="ada").narrowed is False


def test_answers_are_not_remembered() -> None:
    """`even` tells notifications apart that no filter tells apart."""
    with Bus(rules=[Access(policy(f"{HERE}even"))]) as bus:
        ada = bus.subscribe("n > 0", subscriber="ada")
        for number in range(1, 9):
            bus.publish({"producer": "bob", "n": number})
        assert [ada.get(0).get("n") for _ in range(len(ada))] == [2, 4, 6, 8]


def test_what_another_role_grants_without_a_predicate_is_granted() -> None:
    both = AccessPolicy.of(
        {
            "roles": {
                "some": {"members": ["ada"], "subscribe": ["n > 0"], "predicates": [f"{HERE}even"]},
                "more": {"members": ["ada"], "subscribe": ["n > 6"]},
            }
        }
    )
    rights = both.rights(Principal("ada"))
    assert [n for n in range(10) if rights.may_get(Notification.of({"n": n}))] == [2, 4, 6, 7, 8, 9]


def test_a_delegation_has_the_predicates_of_the_role_it_is_from() -> None:
    given = AccessPolicy.of(
        {
            "roles": {
                "ada": {
                    "members": ["ada"],
                    "subscribe": ["n > 0"],
                    "delegate": True,
                    "predicates": [f"{HERE}even"],
                }
            },
            "delegations": [{"by": "ada", "to": "bob", "subscribe": ["n > 4"]}],
        }
    )
    rights = given.rights(Principal("bob"))
    assert [n for n in range(10) if rights.may_get(Notification.of({"n": n}))] == [6, 8]


def test_one_that_fails_refuses_and_tells_no_content(caplog: pytest.LogCaptureFixture) -> None:
    rights = policy(f"{HERE}broken").rights(Principal("ada"))
    assert not rights.may_publish(Notification.of({"n": 7}))
    assert "broken has failed: ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "text", ["nowhere:f", f"{HERE}nothing", f"{HERE}LONG", "no function", f"{HERE}small(1"]
)
def test_what_is_no_function_is_a_mistake_in_the_file(text: str) -> None:
    with pytest.raises(PolicyError, match=r"\[roles.ada\] predicates"):
        policy(text)


def test_a_pattern_of_somebody_from_whom_something_may_be_withheld_is_refused() -> None:
    bus = Bus(rules=[Access(policy(f"{HERE}even"))])
    with bus, pytest.raises(Forbidden, match="depends on predicates"):
        bus.detect("two: [n > 1] followed by [n > 2] within 9 s", subscriber="ada")


def test_policies_with_other_predicates_are_others() -> None:
    assert len({policy(*each).fingerprint for each in ((), (f"{HERE}even",), (f"{HERE}modest",))}) == 3
    assert Predicate.parse(f"{HERE}even") == Predicate.parse(f"{HERE}even")


@pytest.mark.parametrize("durable", ["", "desk-1"])
def test_a_broker_withholds_where_the_subscriber_is_and_what_waits_in_the_log_too(
    guarded: Guarded, durable: str
) -> None:
    guarded.write(
        POLICY.replace('members = ["ada", "bob"]', f'members = ["ada"]\npredicates = ["{HERE}small(300)"]')
        + "[roles.other]\nmembers = ['bob']\nsubscribe = ['true']\ndurables = ['desk-*']"
    )
    server = guarded.start("b")
    with guarded.client(server, "nyse") as nyse:
        with guarded.client(server, "ada") as ada, ada.subscribe("true", durable=durable):
            pass
        for number, text in enumerate(("short", LONG, "short"), start=1):
            nyse.publish({"symbol": "IBM", "n": number, "text": text})
        with (
            guarded.client(server, "ada") as ada,
            guarded.client(server, "bob") as bob,
            ada.subscribe("true", durable=durable) as small_ones,
            bob.subscribe("true") as all_of_them,
        ):
            for number, text in enumerate((LONG, "short"), start=4):
                nyse.publish({"symbol": "IBM", "n": number, "text": text})
            expected = [1, 3, 5] if durable else [5]
            assert [small_ones.get(10).get("n") for _ in expected] == expected
            assert [all_of_them.get(10).get("n") for _ in range(2)] == [4, 5]
