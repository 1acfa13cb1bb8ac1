"""Two things that a key class may have besides its keys: tokens of values, and signatures of producers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import Phase, example, find, given, settings
from hypothesis import strategies as st

from fairlead import Bus, Notification, parse
from fairlead.errors import Forbidden, KeyringError, PolicyError, SealBroken
from fairlead.filters.extensions.sealed import SealedPredicate, tokens_of
from fairlead.filters.language import render
from fairlead.rules.sealing import Sealing
from fairlead.security import AccessPolicy
from fairlead.security.sealing import Identity, Keyring, Sealer, equality
from fairlead.security.sealing.envelope import replaced

ADA, EVE = Identity.new(), Identity.new()


def keyring(*classes: str) -> Keyring:
    made = Keyring()
    for name in classes:
        made.rotate(name, 0)
    return made


def policy(**police: Any) -> AccessPolicy:
    return AccessPolicy.of(
        {
            "keys": {"police": police, "fire": {}},
            "sealed": {"*": {"place": "plain | police | fire", "alias": "police"}},
            "producers": {"ada": {"public": ADA.public}, "bob": {"public": EVE.public}},
        }
    )


def event(place: Any, id: str = "7", producer: str = "ada") -> Notification:
    return Notification.of({"id": id, "producer": producer, "type": "Accident", "place": place})


# -- tokens ------------------------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.sampled_from([0, 1, -1, 10, 100, 1.0, 0.1, -0.0, 1e22, True, False, "", "1", "a", "n1", "bTrue"]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.text(st.characters(codec="utf-8"), max_size=4),
)
VALUES = st.one_of(SCALARS, st.lists(st.sampled_from(["a", "b"]), max_size=2), st.none())
PREDICATES = st.one_of(
    SCALARS.map(lambda value: constraint("=", [value])),
    st.lists(SCALARS, min_size=1, max_size=3).map(lambda values: constraint("in", values)),
    st.sampled_from(['not place = "a"', 'place != "a"', "place > 3", "exists place", 'place prefix "a"']).map(
        parse
    ),
)


def constraint(op: str, values: list[Any]) -> Any:
    from fairlead.filters import Constraint, Op
    from fairlead.filters.terms import Attribute

    operand = values[0] if op == "=" else frozenset(values)
    return Constraint(Attribute("place"), Op.EQ if op == "=" else Op.IN, operand)


def decisions(value: Any, predicate: Any, make: Callable[[], AccessPolicy]) -> tuple[bool, bool, bool]:
    """Whether a predicate holds; whether a broker without keys forwards; whether it is one that tokens decide."""
    sealer = Sealer(make().sealed, KEYS)
    plain = event(value)
    sealed, told = sealer.seal(plain), sealer.filter(predicate)
    [test] = [told.test] if hasattr(told, "test") else [None]
    decided = isinstance(test, SealedPredicate) and "~" in "".join(test.arguments)
    has_token = bool(tokens_of(sealed.get("place"))) if isinstance(sealed.get("place"), bytes) else False
    return predicate.matches(plain), parse(render(told)).matches(sealed), decided and has_token


KEYS = keyring("police", "fire")


@given(VALUES, PREDICATES)
@example(1, constraint("=", [1.0]))
@example(Decimal("0.1"), constraint("=", [0.1]))
@example(-0.0, constraint("=", [0]))
@example(True, constraint("in", [1, "True"]))
def test_without_keys_tokens_decide_as_the_keys_do_and_nothing_is_lost(value: Any, predicate: Any) -> None:
    wanted, forwarded, is_decided = decisions(value, predicate, lambda: policy(match="tokens"))
    assert forwarded or not wanted
    if is_decided:
        assert forwarded == wanted


def test_a_token_that_depends_on_how_a_number_is_written_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality, "_canonical", repr)

    def is_lost(pair: tuple[Any, Any]) -> bool:
        wanted, forwarded, _ = decisions(*pair, lambda: policy(match="tokens"))
        return wanted and not forwarded

    few = settings(phases=[Phase.generate], max_examples=1_000)
    assert find(st.tuples(VALUES, PREDICATES), is_lost, settings=few)


def test_tokens_are_for_those_who_say_so() -> None:
    for made, has_tokens in ((policy(), False), (policy(match="tokens"), True)):
        sealer = Sealer(made.sealed, KEYS)
        first, second = (sealer.seal(event("Elm Street", id)).get("place") for id in ("1", "2"))
        assert bool(tokens_of(first)) == has_tokens
        assert first != second
        # What leaks is that they are equal, under the class that says so.
        assert tokens_of(first) == tokens_of(second)
        assert {*tokens_of(first)} <= {"police:1"}
        assert b"Elm" not in first
        wanted = parse('place = "Oak Street"')
        assert parse(render(sealer.filter(wanted))).matches(sealer.seal(event("Elm Street"))) != has_tokens
    other = Sealer(policy(match="tokens").sealed, keyring("police"))
    assert tokens_of(other.seal(event("Elm Street")).get("place")) != tokens_of(first)


def test_the_same_value_of_another_attribute_has_another_token() -> None:
    sealer = Sealer(policy(match="tokens").sealed, KEYS)
    sealed = sealer.seal(Notification.of({"id": "1", "producer": "ada", "place": "x", "alias": "x"}))
    assert not {*tokens_of(sealed.get("place")).values()} & {*tokens_of(sealed.get("alias")).values()}


def test_after_a_key_was_replaced_tokens_of_two_epochs_decide_nothing() -> None:
    keys = keyring("police")
    sealer = Sealer(policy(match="tokens").sealed, keys)
    told = sealer.filter('place = "a"')
    keys.rotate("police", 1)
    assert parse(render(told)).matches(sealer.seal(event("b")))  # the subscriber decides


def test_on_a_bus_without_keys_only_what_is_equal_is_delivered() -> None:
    sealer = Sealer(policy(match="tokens").sealed, KEYS)
    with Bus(rules=[Sealing(Sealer(policy(match="tokens").sealed, Keyring()))]) as bus:
        got = bus.subscribe(sealer.filter('place in {"a", "b"}'), subscriber="ada")
        for id, place in enumerate("abcd"):
            bus.publish(sealer.seal(event(place, str(id))))
        assert [sealer.view(got.get(0)).get("place") for _ in range(len(got))] == ["a", "b"]


# -- signatures --------------------------------------------------------------------------------------------------


def signer(identity: Identity | None = ADA, made: AccessPolicy | None = None) -> Sealer:
    return Sealer((made or policy(signed=True)).sealed, KEYS, identity=identity)


def test_what_a_producer_signs_is_admitted_and_opened() -> None:
    sealed = signer().seal(event("Elm Street"))
    assert signer(None).objection(sealed, 0) is None
    assert signer(None).view(sealed).get("place") == "Elm Street"
    assert Sealer(policy(signed=True).sealed, Keyring()).objection(sealed, 0) is None  # without keys, too


CHANGES: dict[str, Callable[[Notification], Notification]] = {
    "none": lambda sealed: sealed.without(frozenset({"signature"})),
    "another's": lambda sealed: replaced(
        sealed, {"signature": signer(EVE).seal(event("Elm Street")).content["signature"]}
    ),
    "of another notification": lambda sealed: replaced(
        sealed, {"signature": signer().seal(event("Elm Street", "8")).content["signature"]}
    ),
    "another value": lambda sealed: replaced(
        sealed, {"place": signer().seal(event("Oak Street")).content["place"]}
    ),
    "another producer": lambda sealed: replace(sealed, producer="bob"),
    "an unknown producer": lambda sealed: replace(sealed, producer="eve"),
    "another id": lambda sealed: replace(sealed, id="8"),
    "another type": lambda sealed: replaced(sealed, {"type": "Parade"}),
    "no bytes": lambda sealed: replaced(sealed, {"signature": "x"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_its_producer_did_not_sign_is_refused_and_not_opened(change: str) -> None:
    forged = CHANGES[change](signer().seal(event("Elm Street")))
    keyless = Sealer(policy(signed=True).sealed, Keyring())
    assert keyless.objection(forged, 0) is not None
    with pytest.raises(SealBroken):
        signer(None).view(forged)
    with Bus(rules=[Sealing(keyless)]) as bus, pytest.raises(Forbidden):
        bus.publish(forged)


def test_a_member_of_the_class_cannot_publish_in_the_name_of_another() -> None:
    """Who has the key can seal whatever it likes; without the signature that is believed."""
    forged = signer(EVE).seal(event("Elm Street"))
    assert signer(None).objection(forged, 0) == "it is not signed by its producer 'ada'"
    assert signer(None, policy()).objection(forged, 0) is None


def test_who_has_to_sign_and_cannot_is_told() -> None:
    with pytest.raises(KeyringError, match="signed by its producer"):
        signer(None).seal(event("Elm Street"))


def test_classes_are_part_of_the_policy(tmp_path: Any) -> None:
    made = [policy(), policy(signed=True), policy(match="tokens")]
    assert len({each.fingerprint for each in made}) == 3
    with pytest.raises(PolicyError, match=r"\[producers.ada\] public"):
        AccessPolicy.of({"producers": {"ada": {}}})
    sealed = json.loads(signer().seal(event("Elm Street")).to_json())
    assert signer(None).view(Notification.read(sealed)).get("place") == "Elm Street"
