"""What a policy grants is requested and within the limit; roles hold while all that they hang on holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from fairlead.errors import PolicyError, ValueRefused
from fairlead.filters import EVERYTHING, NOTHING, And, Filter, Or, covers, overlaps, parse, simplify
from fairlead.model import Instant, Notification
from fairlead.security import AccessPolicy, Decision, Delegation, Principal, Rights
from fairlead.security.principals import HOUR_US, NOBODY

ADA, BOB = Principal("ada"), Principal("bob")


def policy(roles: dict[str, dict[str, Any]], **top: Any) -> AccessPolicy:
    return AccessPolicy.of({"roles": roles, **top})


def limited(*filters: str) -> Rights:
    return policy({"r": {"members": ["ada"], "subscribe": list(filters)}}).rights(ADA)


# -- the cases of the text ---------------------------------------------------------------------------------------


def test_a_request_within_the_limit_is_granted_unchanged() -> None:
    decision = limited('symbol in {"IBM", "SAP"}').may("subscribe", parse('symbol = "IBM" and price > 100'))
    assert (decision.outcome, decision.granted) == ("granted", decision.requested)


def test_a_request_beyond_the_limit_is_met_with_it_and_not_replaced_by_it() -> None:
    decision = limited('symbol = "IBM"').may("subscribe", parse("price > 100"))
    assert (decision.outcome, str(decision.granted)) == ("narrowed", 'price > 100 and symbol = "IBM"')
    assert decision.granted is not None
    matching = [
        decision.granted.matches(Notification.of({"symbol": symbol, "price": price}))
        for symbol, price in (("IBM", 120), ("SAP", 120), ("IBM", 50))
    ]
    assert matching == [True, False, False]


def test_what_several_roles_grant_is_joined_before_it_is_met() -> None:
    rights = policy(
        {
            "ibm": {"members": ["ada"], "subscribe": ['symbol = "IBM"']},
            "dear": {"members": ["ada"], "subscribe": ['symbol in {"SAP", "SUN"} and price > 150']},
        }
    ).rights(ADA)
    decision = rights.may("subscribe", parse('symbol in {"IBM", "SAP"} and price > 100'))
    assert str(decision.granted) == 'symbol = "SAP" and price > 150 or symbol = "IBM" and price > 100'
    assert decision.roles == ("ibm", "dear")


def test_what_can_never_match_is_refused_with_the_reason() -> None:
    decision = limited('symbol = "SAP"').may("subscribe", parse('symbol = "IBM"'))
    assert (decision.outcome, decision.granted) == ("refused", None)
    assert decision.reason == "ada may not subscribe to that as r"


def test_publications_are_limited_by_the_filters_of_publish() -> None:
    rights = policy({"r": {"members": ["ada"], "publish": ['symbol = "IBM"']}}).rights(ADA)
    assert rights.may_publish(Notification.of({"symbol": "IBM", "price": 1}))
    assert not rights.may_publish(Notification.of({"symbol": "SAP", "price": 1}))
    assert rights.may("advertise", parse("price > 0")).outcome == "narrowed"


# -- roles -----------------------------------------------------------------------------------------------------


def test_nothing_is_granted_that_no_active_role_grants() -> None:
    rights = policy({"r": {"members": ["ada"], "subscribe": ["exists x"]}}).rights(BOB)
    assert (rights.roles, rights.allowed) == ((), frozenset())
    assert rights.may("subscribe", parse("x = 1")).is_refused


def test_a_role_ends_with_the_roles_that_it_requires() -> None:
    roles: dict[str, dict[str, Any]] = {
        "desk": {"members": ["*"], "requires": ["trader"], "subscribe": ["exists x"]},
        "trader": {"members": ["*"], "requires": ["employee"]},
        "employee": {"members": ["ada"]},
    }
    assert policy(roles).rights(ADA).roles == ("employee", "trader", "desk")
    assert policy(roles).rights(BOB).roles == ()
    assert policy(roles, revoked=["ada"]).rights(ADA).roles == ()


def test_a_condition_is_a_filter_on_what_the_credentials_say() -> None:
    made = policy({"r": {"members": ["*"], "when": 'via = "token" and claims.groups contains "traders"'}})
    for claims, via, expected in (
        ({"groups": ["traders", "staff"]}, "token", ("r",)),
        ({"groups": ["staff"]}, "token", ()),
        ({"groups": ["traders"]}, "password", ()),
        ({"groups": [{"name": "traders"}]}, "token", ()),
    ):
        assert made.rights(Principal("ada", claims, via)).roles == expected


def test_hours_and_expiry_end_roles_at_their_time() -> None:
    made = policy({"day": {"members": ["*"], "when": "hour in [6, 22]"}})
    assert made.rights(ADA, 5 * HOUR_US).roles == ()
    assert made.rights(ADA, 6 * HOUR_US).roles == ("day",)
    assert made.rights(ADA, 6 * HOUR_US + 1).until == 7 * HOUR_US
    expiring = replace(ADA, until=6 * HOUR_US + 10)
    assert made.rights(expiring, 6 * HOUR_US).until == expiring.until
    assert made.rights(expiring, 6 * HOUR_US + 10).roles == ()


def test_a_revoked_token_ends_one_session_and_not_the_principal() -> None:
    made = policy({"r": {"members": ["ada"]}}, revoked=["token:7"])
    assert made.rights(replace(ADA, token="7")).roles == ()
    assert made.rights(replace(ADA, token="8")).roles == ("r",)
    assert made.revoking("ada").rights(replace(ADA, token="8")).roles == ()


def test_everybody_does_not_include_those_without_credentials() -> None:
    assert policy({"r": {"members": ["*"]}}).rights(NOBODY).roles == ()
    assert policy({"r": {"members": ["anonymous"]}}).rights(NOBODY).roles == ("r",)


@pytest.mark.parametrize(
    ("name", "owned"),
    [("ada", True), ("ada~1", True), ("ada1", False), ("ada-algo", True), ("bob", False), ("desk-7", True)],
)
def test_names_belong_to_whom_the_policy_says(name: str, owned: bool) -> None:
    made = policy({"r": {"members": ["ada"], "producers": ["{name}-algo", "desk-?"]}})
    assert made.rights(ADA).owns("producers", name) == owned
    assert made.rights(ADA).owns("durables", name) == (name in ("ada", "ada~1"))


@pytest.mark.parametrize("kind", ["producers", "clients", "durables"])
def test_the_names_of_scopes_belong_to_those_who_may_change_scopes_whatever_a_pattern_says(kind: str) -> None:
    careless = {"members": ["ada", "scopes"], kind: ["*"]}
    for allow, owned in (([], False), (["scopes"], True)):
        made = policy({"r": {**careless, "allow": ["connect", *allow]}})
        for name in ("scopes", "scopes@hub"):
            assert made.rights(ADA).owns(kind, name) == owned
            assert made.rights(Principal("scopes")).owns(kind, name) == owned
        assert made.rights(ADA).owns(kind, "scopes-of-work")


def test_a_name_is_no_pattern_where_it_stands_in_one() -> None:
    made = policy({"r": {"members": ["*"], "producers": ["{name}-algo"]}})
    assert not made.rights(Principal("*")).owns("producers", "bob-algo")
    assert made.rights(Principal("*")).owns("producers", "*-algo")


@pytest.mark.parametrize("name", ["", "c:ada", "d:ada", "a~b", "a\nb", "x" * 201])
def test_some_names_cannot_be_those_of_principals(name: str) -> None:
    with pytest.raises(ValueRefused, match="cannot be the name of a principal"):
        Principal(name)


# -- types -----------------------------------------------------------------------------------------------------


OWNED = {
    "roles": {"all": {"members": ["*"], "subscribe": ["true"], "publish": ["true"]}},
    "types": {
        "Quote": {"owners": ["nyse", "nyse-*"], "subscribe": ["delay > 15"]},
        "Note": {"owners": ["desk"], "publish": ["length = 1"]},
    },
}


@pytest.mark.parametrize(
    ("name", "event", "published", "delivered"),
    [
        ("nyse-2", {"type": "Quote", "delay": 0}, True, True),
        ("ada", {"type": "Quote", "delay": 0}, False, False),
        ("ada", {"type": "Quote", "delay": 20}, False, True),
        ("ada", {"type": "Note", "length": 1}, True, True),
        ("ada", {"type": "Note", "length": 2}, False, True),
        ("desk", {"type": "Note", "length": 2}, True, True),
        ("ada", {"type": "Other"}, True, True),
        ("ada", {"delay": 0}, True, True),
        ("anonymous", {"type": "Other"}, False, False),
    ],
)
def test_a_type_belongs_to_its_owners_who_decide_what_others_do(
    name: str, event: dict[str, Any], published: bool, delivered: bool
) -> None:
    rights = AccessPolicy.of(OWNED).rights(Principal(name) if name != "anonymous" else NOBODY)
    notification = Notification.of(event)
    assert rights.may_publish(notification) == published
    granted = rights.may("subscribe", EVERYTHING).granted
    assert (granted is not None and granted.matches(notification)) == delivered
    advertised = rights.may("advertise", EVERYTHING).granted
    assert (advertised is not None and advertised.matches(notification)) == published


def test_a_type_without_owners_is_a_mistake_and_types_are_in_the_fingerprint() -> None:
    with pytest.raises(PolicyError, match="the principals whose type it is"):
        AccessPolicy.of({"types": {"Quote": {}}})
    assert AccessPolicy.of(OWNED).fingerprint != AccessPolicy.of({"roles": OWNED["roles"]}).fingerprint


# -- delegation ------------------------------------------------------------------------------------------------


def delegated(*, delegate: bool = True, **more: Any) -> AccessPolicy:
    roles = {"r": {"members": ["ada"], "subscribe": ["x in [0, 9]"], "delegate": delegate}}
    given = {"by": "ada", "to": "bob", "subscribe": ["x > 5"], **more}
    return policy(roles, delegations=[given])


def test_a_delegation_grants_at_most_what_its_giver_may() -> None:
    decision = delegated().rights(BOB).may("subscribe", parse("exists x"))
    assert str(decision.granted) == "x in (5, 9]"
    assert decision.roles == ("ada's delegation",)


def test_a_delegation_ends_with_the_rights_of_its_giver_and_with_its_time() -> None:
    for ended in (
        delegated().revoking("ada"),
        delegated().revoking("bob"),
        delegated(delegate=False),
        delegated(until="1970-01-01T00:00:01Z"),
    ):
        assert ended.rights(BOB, 1_000_000).may("subscribe", parse("x = 7")).is_refused
    assert delegated(until="1970-01-01T00:00:01Z").rights(BOB, 999_999).until == 1_000_000


def test_what_is_delegated_is_not_delegated_on() -> None:
    made = delegated().delegating(Delegation("bob", "eve", {"subscribe": (parse("x = 7"),)}))
    assert made.rights(Principal("eve")).may("subscribe", parse("x = 7")).is_refused


# -- the file --------------------------------------------------------------------------------------------------


def test_all_that_is_wrong_with_a_file_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        "version = 2\n"
        "[roles.trader]\nmember = ['ada']\nsubscribe = ['price >']\nallow = ['everything']\n"
        "[[delegations]]\nto = 'bob'\nuntil = 'soon'\n"
    )
    with pytest.raises(PolicyError) as error:
        AccessPolicy.read(path)
    text = str(error.value)
    for part in (
        "6 problems",
        "line 1: version: a whole number from 1 to 1",
        "line 3: [roles.trader] member: no such key; did you mean 'members'?",
        "line 4: [roles.trader] subscribe: line 1, column 8",
        "line 5: [roles.trader] allow: connect, link, inspect, manage or scopes was expected",
        "line 8: [[delegations]] 1: until",
        "line 6: [[delegations]] 1: by: missing",
    ):
        assert part in text


def test_lines_are_those_of_tables_and_keys_whatever_is_around_them(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        "revoked = [\n'a',\n]\n"
        "[roles.'x.y']\n"
        'when = """\n[roles.z]\nsubscribe = 1\n"""\n'
        "[roles.z] # [sealed]\nsubscribe = ['x >']\n"
        "[[delegations]]\nby = 'a'\nto = 'b'\n"
        "[[delegations]]\nby = 'a'\nto = 'b'\nuntil = 'soon'\n"
        '[keys.police]\n[sealed.Accident]\n"place" = "no class"\n'
    )
    with pytest.raises(PolicyError) as error:
        AccessPolicy.read(path)
    text = str(error.value)
    for part in (
        "line 5: [roles.x.y] when",
        "line 10: [roles.z] subscribe: line 1",
        "line 17: [[delegations]] 2: until",
        "line 20: [sealed.Accident] place: 'no class'",
    ):
        assert part in text
    path.write_text("\n[roles.z]\nmember = ['x']\n")
    with pytest.raises(PolicyError, match=r"policy.toml:3: \[roles.z\] member: no such key"):
        AccessPolicy.read(path)


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        ({"a": {"requires": ["b"]}, "b": {"requires": ["a"]}}, "in a cycle"),
        ({"trader": {}, "b": {"requires": ["tradr"]}}, "did you mean 'trader'?"),
    ],
)
def test_roles_that_cannot_be_are_refused(roles: dict[str, dict[str, Any]], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem.replace("?", r"\?")):
        policy(roles)


def test_what_is_hardly_meant_is_a_warning() -> None:
    made = policy(
        {"r": {"subscribe": ["x > 5 and x < 3"]}},
        delegations=[{"by": "eve", "to": "bob", "subscribe": ["x = 1"]}],
    )
    assert made.warnings() == [
        "[roles.r]: it has no members",
        "[roles.r] subscribe: nothing matches x > 5 and x < 3",
        "[[delegations]]: eve has no role that may delegate",
    ]


def test_policies_that_decide_alike_have_one_fingerprint() -> None:
    one = policy({"r": {"members": ["ada"], "subscribe": ["x > 5"]}})
    assert one.fingerprint == policy({"r": {"members": ["ada"], "subscribe": ["x>5"]}}).fingerprint
    assert one.fingerprint != one.revoking("ada").fingerprint


# -- the law, its oracle and mutants -----------------------------------------------------------------------------

FILTERS = (
    "x > 1",
    "x < 3",
    "x in {1, 2}",
    'kind = "a"',
    "not x = 2",
    "exists y",
    'x = 1 or kind = "b"',
    "true",
)
filters = st.sampled_from(FILTERS)
names = st.sampled_from(["ada", "bob"])
roles = st.dictionaries(
    st.sampled_from(["r", "s", "t"]),
    st.fixed_dictionaries(
        {
            "members": st.lists(st.sampled_from(["ada", "bob", "*", "a?a"]), max_size=2),
            "subscribe": st.lists(filters, max_size=2),
        },
        optional={"when": st.sampled_from(['name = "ada"', "hour < 12", 'via = "token"'])},
    ),
    max_size=3,
)
policies = st.builds(
    lambda made, needs, revoked: policy(
        {
            name: {**role, "requires": [each for each in sorted(made) if each < name and each in needs]}
            for name, role in made.items()
        },
        revoked=revoked,
    ),
    roles,
    st.sets(st.sampled_from(["r", "s"])),
    st.lists(names, max_size=1),
)
events = st.fixed_dictionaries(
    {}, optional={"x": st.integers(0, 4), "kind": st.sampled_from("ab"), "y": st.integers(0, 1)}
).map(Notification.of)
questions = st.tuples(policies, names.map(Principal), filters.map(parse), events, st.integers(0, 23))


def is_active(made: AccessPolicy, name: str, principal: Principal, now: int) -> bool:
    """The definition: a member, whose condition and all required roles hold."""
    [role] = [each for each in made.roles if each.name == name]
    member = any(
        each in (principal.name, "*") or (each == "a?a" and principal.name == "ada") for each in role.members
    )
    holds = role.when is None or role.when.matches(principal.facts(now))
    return (
        principal.name not in made.revoked
        and member
        and holds
        and all(is_active(made, each, principal, now) for each in role.requires)
    )


def is_allowed(
    made: AccessPolicy, principal: Principal, filter: Filter, event: Notification, now: int
) -> bool:
    """The oracle: match what is requested, then what each active role grants, event by event."""
    return filter.matches(event) and any(
        each.matches(event)
        for role in made.roles
        if is_active(made, role.name, principal, now)
        for each in role.grants["subscribe"]
    )


Question = tuple[AccessPolicy, Principal, Filter, Notification, int]
Decide = Callable[[AccessPolicy, Principal, Filter, int], Filter]


def decide(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    granted = made.rights(principal, now).may("subscribe", filter).granted
    return NOTHING if granted is None else granted


def is_right(decide: Decide, question: Question) -> bool:
    made, principal, filter, event, hour = question
    now = hour * HOUR_US
    return decide(made, principal, filter, now).matches(event) == is_allowed(
        made, principal, filter, event, now
    )


@given(question=questions)
def test_what_is_granted_is_what_is_requested_and_within_the_limit(question: Question) -> None:
    assert is_right(decide, question)


@given(question=questions)
def test_a_decision_says_what_it_does(question: Question) -> None:
    made, principal, filter, _, hour = question
    decision: Decision = made.rights(principal, hour * HOUR_US).may("subscribe", filter)
    if decision.outcome == "granted":
        assert decision.granted == filter
    elif decision.outcome == "narrowed":
        assert decision.granted is not None
        assert covers(filter, decision.granted)
        assert decision.roles
    else:
        assert decision.reason


def replaces_by_the_limit(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    grants = made.rights(principal, now).grants["subscribe"]
    limit = Or.of(each.filter for each in grants)
    return filter if covers(limit, filter) else limit if overlaps(limit, filter) else NOTHING


def grants_all_of_what_overlaps(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    grants = made.rights(principal, now).grants["subscribe"]
    return filter if any(overlaps(each.filter, filter) for each in grants) else NOTHING


def meets_one_role_only(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    grants = made.rights(principal, now).grants["subscribe"]
    return simplify(And.of((filter, grants[0].filter))) if grants else NOTHING


def meets_every_role(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    grants = made.rights(principal, now).grants["subscribe"]
    return simplify(And.of((filter, *(each.filter for each in grants)))) if grants else NOTHING


def forgets_requirements(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    return decide(
        replace(made, roles=tuple(replace(each, requires=()) for each in made.roles)), principal, filter, now
    )


def forgets_conditions(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    return decide(
        replace(made, roles=tuple(replace(each, when=None) for each in made.roles)), principal, filter, now
    )


def forgets_revocations(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    return decide(replace(made, revoked=frozenset()), principal, filter, now)


def forgets_the_time(made: AccessPolicy, principal: Principal, filter: Filter, now: int) -> Filter:
    return decide(made, principal, filter, 0)


@pytest.mark.parametrize(
    "mutant",
    [
        replaces_by_the_limit,
        grants_all_of_what_overlaps,
        meets_one_role_only,
        meets_every_role,
        forgets_requirements,
        forgets_conditions,
        forgets_revocations,
        forgets_the_time,
    ],
)
def test_a_policy_that_decides_otherwise_is_caught(mutant: Decide) -> None:
    find(
        questions,
        lambda question: not is_right(mutant, question),
        settings=settings(
            max_examples=20_000, deadline=None, derandomize=True, database=None, phases=[Phase.generate]
        ),
    )


def test_time_of_a_principal_is_utc() -> None:
    facts = ADA.facts(Instant.parse("2026-11-18T23:30:00Z").microseconds)
    assert parse('hour = 23 and weekday = "wednesday"').matches(facts)
