"""The scope graph language: the book's examples, round trips, and what is said of mistakes."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import NotAdmitted, ScopeError, ScopeSyntaxError
from fairlead.filters import EVERYTHING, NOTHING, parse
from fairlead.model import Instant, Record
from fairlead.scopes import (
    Component,
    Interface,
    Scope,
    ScopeGraph,
    Scopes,
    System,
    parse_statements,
    print_statements,
)
from fairlead.scopes.conditions import HasInterface, IsRole
from fairlead.scopes.language.statements import (
    STAR,
    Alter,
    Between,
    Border,
    Create,
    Define,
    Deploy,
    DropScope,
    Event,
    Every,
    Features,
    Join,
    Leave,
    Properties,
    Ranked,
    Reference,
    Rule,
    Selection,
    Source,
)
from fairlead.scopes.mappings import Assign, Code, Constant, Converted, EdgeMapping, Rename
from fairlead.scopes.policies import (
    All,
    Chain,
    Delay,
    Direction,
    Hold,
    Nobody,
    One,
    Own,
    Policy,
    Rate,
    To,
    Top,
    Traverse,
)
from fairlead.scopes.system import select
from fairlead_lab.testing.scopes import steps

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "scopes.json").read_text())["cases"]

# -- the law ---------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    [
        "a",
        "S1",
        "has-temp-sensor",
        "all",
        "name#2",
        "with space",
        "Ω",
        "it's",
        "component",
        "x.y",
        "-- a",
        "`",
    ]
)
PLAIN_FILTERS = st.sampled_from(
    [
        parse(text)
        for text in (
            'price > 10 and symbol in {"A", "B"}',
            "x in [1, 3)",
            "not (a = 1)",
            'tags contains "-- x"',
            '("a", *, 3)',
            "x + 2 * y > 3",
            "//item[@clock > 3]",
            'a.b prefix "#x"',
            "position in rectangle(0, 0, 1, 1)",
            '`odd-name` = 1 or b = t"2024-05-01T10:00:00Z"',
            "tuple[#] = 3",
            "type is Quote",
        )
    ]
)
FILTERS = st.one_of(st.sampled_from([EVERYTHING, NOTHING]), PLAIN_FILTERS)
CONDITIONS = st.recursive(
    st.one_of(PLAIN_FILTERS, st.builds(IsRole, NAMES), st.builds(HasInterface, st.booleans(), FILTERS)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda each: ~each),
    ),
    max_leaves=4,
)
VALUES = st.sampled_from([1, "Acme, Inc.", True, None, Instant(5), parse("x = 1.50").operand])  # type: ignore[attr-defined]
REFERENCES = st.sampled_from(["pkg.module:function", "m:f"])
MAPS = st.one_of(
    st.none(),
    st.just(()),
    steps(),
    REFERENCES.map(lambda each: (Code(each),)),
    st.just((Assign("a", Converted("text", "b")), Assign("c", Constant("d")), Rename("x.y", "z"))),
)
NAMED = st.lists(NAMES, min_size=1, max_size=2, unique=True).map(tuple)
COUNTS = st.integers(0, 9)
CHOICES = st.one_of(
    st.sampled_from([All(), Nobody(), One(), One(in_turn=True)]),
    st.builds(To, NAMED),
    st.builds(Top, NAMES, COUNTS),
    st.builds(Chain, NAMED),
    st.builds(Rate, COUNTS, st.sampled_from([1, 1500, 60_000_000, 90_000_000])),
    st.builds(Delay, st.sampled_from([1, 2_000, 3_600_000_000])),
    st.builds(Hold, FILTERS, FILTERS),
    st.builds(Own, REFERENCES),
)
POLICY = st.tuples(st.sampled_from(Direction), st.builds(Policy, CHOICES, FILTERS))
POLICIES = st.lists(POLICY, max_size=2).map(tuple)
BORDERS = st.builds(Border, st.one_of(st.none(), FILTERS), st.one_of(st.none(), FILTERS))
PROPERTIES = st.builds(Properties, BORDERS, MAPS, MAPS, POLICIES)
SOURCES = st.one_of(st.just(STAR), st.builds(Source, NAMES, st.integers(0, 2)))
SELECTIONS = st.builds(
    Selection,
    st.lists(SOURCES, min_size=1, max_size=3).map(tuple),
    st.booleans(),
    st.one_of(
        st.just(Every()),
        st.builds(Ranked, NAMES, COUNTS, st.booleans()),
        st.sampled_from([Between(), Between(1), Between(None, 2), Between(1, 1)]),
    ),
    st.one_of(st.just(EVERYTHING), CONDITIONS),
    st.one_of(st.none(), NAMES),
    PROPERTIES,
)
ATTRIBUTES = st.lists(st.tuples(NAMES, VALUES), max_size=2, unique_by=lambda pair: pair[0]).map(tuple)
PLAIN = st.builds(
    Features,
    border=BORDERS,
    imposed=BORDERS,
    roles=st.lists(NAMES, max_size=2).map(tuple),
    attributes=ATTRIBUTES,
    outward=MAPS,
    inward=MAPS,
    policies=POLICIES,
    traverse=st.one_of(st.none(), st.sampled_from(Traverse)),
    admits=st.one_of(st.none(), CONDITIONS),
    named=st.lists(st.tuples(NAMES, PROPERTIES), max_size=1).map(tuple),
)
SETTING = st.builds(
    Features,
    attributes=st.just((("last", Reference("n", "price")), ("rank", Reference("component", "rank")))),
)
ACTIONS = st.lists(
    st.one_of(
        st.sampled_from([Create(), Create(include=True), Create(include=True, ident="m")]),
        st.builds(Join, st.one_of(st.none(), NAMES), NAMES),
        st.builds(Leave, st.one_of(st.none(), NAMES), NAMES),
        st.builds(Alter, NAMES, st.sampled_from(["", "add", "del"]), st.just(()), SETTING),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
EVENTS = st.one_of(
    st.builds(Event, st.sampled_from(["pub", "con"]), FILTERS, NAMES),
    st.builds(Event, st.sampled_from(["sub", "unsub", "adv", "unadv"]), FILTERS),
    st.builds(
        lambda kind, a, b: Event(kind, component=a, scope=b),
        st.sampled_from(["join", "leave"]),
        st.one_of(st.just("*"), NAMES),
        NAMES,
    ),
)
RULE = st.builds(Rule, EVENTS, ACTIONS, st.one_of(st.just(EVERYTHING), CONDITIONS))
RULES = st.lists(RULE, max_size=2).map(tuple)
FEATURES = st.builds(
    lambda plain, rules: Features(**{**{f: getattr(plain, f) for f in Features.__slots__}, "rules": rules}),
    PLAIN,
    RULES,
)
CLAUSES = st.lists(SELECTIONS, max_size=2).map(tuple)
SINCE = st.one_of(st.none(), st.just(Instant(1_714_557_600_000_000)))
STATEMENTS = st.one_of(
    st.builds(Define, NAMES, CLAUSES, FEATURES, st.just(False), st.booleans(), SINCE),
    st.builds(Define, NAMES, CLAUSES, FEATURES, st.just(True), st.just(False), SINCE),
    st.builds(
        Deploy,
        NAMES,
        st.one_of(st.none(), NAMES),
        CLAUSES,
        FEATURES,
        st.sampled_from(["", "COLLAPSED", "HUB(b1)", "INTEGRATED GATEWAY hub", "BROKERSCOPE(localhost)"]),
        SINCE,
    ),
    st.builds(Alter, NAMES, st.sampled_from(["", "add", "del"]), CLAUSES, FEATURES, SINCE),
    st.builds(DropScope, NAMES, SINCE),
    st.builds(Join, NAMES, NAMES, SINCE),
    st.builds(Leave, NAMES, NAMES, SINCE),
)


@given(st.lists(STATEMENTS, max_size=3).map(tuple))
def test_parse_of_print_is_the_identity(statements: tuple[Any, ...]) -> None:
    text = print_statements(statements)
    assert parse_statements(text) == statements
    assert print_statements(parse_statements(text)) == text


@given(st.lists(STATEMENTS, max_size=2).map(tuple))
def test_a_document_says_what_the_text_says(statements: tuple[Any, ...]) -> None:
    from fairlead.scopes.documents import from_document, to_document

    document = json.loads(json.dumps(to_document(statements)))
    assert print_statements(from_document(document)) == print_statements(statements)


# -- the book's examples ---------------------------------------------------------------------------------------

WORLD = """
DEFINE SCOPE world AS ALL FROM w1, w2, w3, w4
DEFINE COMPONENT w1 AS SET has-temp-sensor = 1, experience = 3
DEFINE COMPONENT w2 AS SET experience = 9
DEFINE COMPONENT w3 AS SET has-temp-sensor = 1, experience = 9
DEFINE COMPONENT A AS SET has-temp-sensor = 1
DEFINE COMPONENT B AS SET has-temp-sensor = 0
DEFINE SCOPE S1 AS
DEFINE SCOPE S2 AS
"""


def test_a_selection_takes_members_and_names_that_its_condition_holds_for() -> None:
    scopes = Scopes.parse(f"""{WORLD}
        DEFINE SCOPE temp AS
        m: ALL FROM MEMBERS(world), A, B
          WHERE has-temp-sensor = 1
        s: SUPERSCOPES ALL FROM S1, S2
        m: {{ INTERFACES OUTPUT(TempNotification), INPUT(0) }}
        INTERFACES OUTPUT(AlarmNotification)""")
    assert scopes.members("temp") == ["A", "w1", "w3"]
    assert sorted(scopes.graph.superscopes("temp")) == ["S1", "S2"]
    assert scopes.graph.scope("temp").interface == Interface(NOTHING, parse("type is AlarmNotification"))
    imposed = Interface(NOTHING, parse("type is TempNotification"))
    assert {edge.imposed for edge in scopes.graph.members("temp").values()} == {imposed}


def test_imposed_interfaces_have_two_spellings() -> None:
    apart = Scopes.parse(
        f"{WORLD} DEFINE SCOPE t AS m: ALL FROM A, B m:{{ INTERFACES OUTPUT(Temp), INPUT(0) }}"
    )
    within = Scopes.parse(
        f"{WORLD} DEFINE SCOPE t AS ALL FROM A, B : {{ INTERFACES OUTPUT(Temp), INPUT(0) }}"
    )
    assert apart.graph == within.graph


def test_coupling_points_are_resolved_at_deployment() -> None:
    company = """
        DEFINE SCOPE admin AS ALL FROM c1, c2, c3 SUPERSCOPE ALL FROM world
          INTERFACES INPUT(something), OUTPUT(else) ROLES boss
        DEFINE SCOPE company AS
          b: [1..1] FROM MEMBERS(world) WHERE IS ROLE(boss) : { INTERFACES OUTPUT(holidayAnnouncement) }
          worker: TOP(experience, 2) FROM MEMBERS(world) WHERE NOT IS ROLE(boss) AND
            (HAS OUTPUT(necessaryInformation) OR INPUT(furtherProcessing))
          SET name = "Acme, Inc." """
    scopes = Scopes.parse(WORLD + company)
    assert scopes.members("company") == ["admin", "w2", "w3"]
    assert scopes.graph.scope("company").attributes["name"] == "Acme, Inc."
    printed = company.replace("MEMBERS(world) WHERE IS", "world WHERE IS")
    with pytest.raises(ScopeError, match="company needs at least 1 members and there are 0"):
        Scopes.parse(WORLD + printed)


def test_a_template_is_deployed_where_its_star_has_a_meaning() -> None:
    scopes = Scopes.parse("""
        DEFINE SCOPE S AS ALL FROM x, y
        DEFINE COMPONENT x AS SET has-temp-sensor = 1
        DEFINE SCOPE temp AS a: ALL FROM * WHERE has-temp-sensor = 1
        DEPLOY S;
        DEPLOY temp
          SUPERSCOPE ALL FROM S
          a: { INTERFACES OUTPUT(TempNotification) }
          BROKERSCOPE(localhost)""")
    assert scopes.members("temp") == ["x"]
    assert scopes.graph.members("temp")["x"].imposed.output == parse("type is TempNotification")
    assert scopes.graph.scope("temp").architecture == "BROKERSCOPE(localhost)"


def test_alter_adds_takes_away_and_replaces() -> None:
    base = "DEFINE SCOPE S AS; DEFINE SCOPE temp AS m: ALL FROM a, b INTERFACES OUTPUT(A) ROLES r, q;"
    added = Scopes.parse(f"{base} ALTER SCOPE temp ADD ALL FROM c SUPERSCOPES ALL FROM S")
    assert added.members("temp") == ["a", "b", "c"]
    assert list(added.graph.superscopes("temp")) == ["S"]
    taken = Scopes.parse(f"{base} ALTER SCOPE temp DEL ALL FROM a ROLES q INTERFACES OUTPUT(1)")
    assert taken.members("temp") == ["b"]
    assert taken.graph.scope("temp").roles == {"r"}
    assert taken.graph.scope("temp").interface.output == NOTHING
    replaced = Scopes.parse(f"{base} ALTER SCOPE temp m: ALL FROM b, d INTERFACES OUTPUT(B), INPUT(1)")
    assert replaced.members("temp") == ["b", "d"]
    assert replaced.graph.scope("temp").interface == Interface(EVERYTHING, parse("type is B"))


def test_join_leave_and_drop() -> None:
    base = "DEFINE SCOPE S AS ALL FROM a; DEFINE SCOPE T AS;"
    assert Scopes.parse(f"{base} JOIN b TO S; LEAVE a FROM S").members("S") == ["b"]
    dropped = Scopes.parse(f"{base} DROP SCOPE S")
    assert not dropped.graph.is_scope("S")
    assert not dropped.graph.superscopes("a"), "who was in a dropped scope is isolated, not in default"


def test_a_scope_admits_whom_its_condition_holds_for() -> None:
    base = (
        "DEFINE SCOPE S AS ADMIT WHERE rank > 3; DEFINE COMPONENT a AS SET rank = 5; DEFINE COMPONENT b AS;"
    )
    assert Scopes.parse(f"{base} JOIN a TO S").members("S") == ["a"]
    with pytest.raises(NotAdmitted, match="S does not admit b"):
        Scopes.parse(f"{base} JOIN b TO S")


def test_renaming_is_undone_in_the_other_direction_and_other_mappings_need_it_closed() -> None:
    base = "DEFINE SCOPE S AS; DEFINE SCOPE K AS ALL FROM x SUPERSCOPE ALL FROM S : {{ MAP OUTWARD {{ {} }} }} {};"
    renamed = Scopes.parse(base.format("RENAME price TO usd", "INTERFACES INPUT(1), OUTPUT(1)"))
    there, back = (Rename("price", "usd"),), (Rename("usd", "price"),)
    assert renamed.graph.superscopes("K")["S"].mapping == EdgeMapping(there, back)
    Scopes.parse(base.format("usd = 2 * price", "INTERFACES OUTPUT(1)"))
    with pytest.raises(ScopeError, match="maps one direction, and the other is open"):
        Scopes.parse(base.format("usd = 2 * price", "INTERFACES INPUT(1), OUTPUT(1)"))


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES if c["kind"] == "select"])
def test_a_selection_takes_what_the_case_says(case: dict[str, Any]) -> None:
    given = case["given"]
    nodes: list[Component | Scope] = []
    for name, about in given["components"].items():
        attributes = Record({k: v for k, v in about.items() if k != "roles"})
        if name not in given.get("groups", {}):
            nodes.append(Component(name, attributes, frozenset(about.get("roles", ()))))
    nodes += [Scope(group) for group in given.get("groups", {})]
    edges = [(member, group) for group, members in given.get("groups", {}).items() for member in members]
    where = [given["where"]] if "where" in given else []
    where += [f"IS ROLE({given['role']})"] if "role" in given else []
    match given.get("qualifier"):
        case ["TOP", attribute, k]:
            qualifier = f"TOP({attribute}, {k})"
        case ["RANGE", least, most]:
            qualifier = f"[{'' if least is None else least}..{'' if most is None else most}]"
        case _:
            qualifier = "ALL"
    text = f"{qualifier} FROM {', '.join(given['from'])}" + (f" WHERE {' AND '.join(where)}" if where else "")
    [statement] = parse_statements(f"DEFINE SCOPE example AS {text}")
    assert isinstance(statement, Define)
    system = System(ScopeGraph.of(nodes, edges))
    if case["expect"] == "unresolved":
        with pytest.raises(ScopeError):
            select(system, statement.selections[0])
    else:
        assert select(system, statement.selections[0]) == case["expect"]


# -- mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "complaint"),
    [
        ("DEFINE SCOPE", 1, 13, "the text ends too early; expected a name"),
        ("DEFINE SCOPE x AS ALL FORM y", 1, 23, "unexpected FORM; expected FROM"),
        ("DEFINE SCOPE x AS\n  ALL FROM y WHERE a >", 2, 23, "expected a value"),
        ("DEFINE SCOPE x AS INTERFACES INPUT(price >)", 1, 43, r"unexpected \)"),
        ("DEFINE SCOPE x AS\n ALL FROM y\n BOGUS", 3, 2, "unexpected BOGUS; expected a selection"),
        ("DEFINE SCOPE x AS ALL FROM all", 1, 28, "is written `all`"),
        ("DEFINE SCOPE x AS DELIVERY POLICY SOME", 1, 35, "expected ALL, NONE"),
        ("DEFINE SCOPE x AS DO something", 1, 19, "DO commands are not used"),
        ("JOIN a T b", 1, 8, "expected TO"),
        ("CREATE x", 1, 1, "expected DEFINE"),
        ("DEFINE SCOPE x AS [3..1] FROM y", 1, 24, "cannot be"),
        ("DEFINE SCOPE x AS DELIVERY POLICY DELAY 3 parsecs", 1, 41, "expected a duration"),
        ("DEFINE SCOPE x AS INTERFACES OUTPUT(a = 1), OUTPUT(b = 1)", 1, 45, "OUTPUT is given twice"),
    ],
)
def test_a_mistake_is_shown_where_it_is(text: str, line: int, column: int, complaint: str) -> None:
    with pytest.raises(ScopeSyntaxError, match=complaint) as caught:
        parse_statements(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("DEFINE SCOPE A AS SUPERSCOPE ALL FROM B; DEFINE SCOPE B AS SUPERSCOPE ALL FROM A", "B in A in B"),
        ("DEFINE SCOPE A AS; DEFINE SCOPE A AS", "A is defined twice"),
        ("DEFINE SCOPE A AS ALL FROM MEMBERS(B)", "no scope is named B"),
        ("DEFINE SCOPE A AS SUPERSCOPE ALL FROM B", "no scope is named B"),
        ("DEFINE SCOPE A AS; JOIN x TO y", "y is not defined"),
        ("DEFINE SCOPE A AS ALL FROM x; JOIN A TO x", "x is a simple component"),
        ("DEFINE SCOPE A AS ALL FROM x; LEAVE y FROM A", "y is no member of A"),
        ("DROP SCOPE A", "no scope is named A"),
        ("ALTER SCOPE A ADD ALL FROM x", "no scope is named A"),
        ("DEPLOY A", "no scope is defined as A"),
        ("DEFINE SCOPE A AS; DEPLOY A; DEPLOY A", "A is there already"),
        ("DEFINE SCOPE A AS ALL FROM B; DEFINE SCOPE B AS; DEPLOY A", "B is defined and not deployed"),
        ("DEFINE SCOPE x AS MAP OUTWARD { id = 3 }", "line 1, column 33: a mapping cannot change 'id'"),
        ("DEFINE SCOPE x AS MAP OUTWARD { a = b / 3 }", "computes decimals"),
        ("DEFINE COMPONENT c AS IMPOSE INTERFACES INPUT(0)", "a component has no members"),
        ("DEFINE SCOPE A AS m: { INTERFACES INPUT(0) }", "A has no selection m"),
        (
            "DEFINE SCOPE A AS ALL FROM MEMBERS(B); DEFINE SCOPE B AS ALL FROM MEMBERS(A)",
            "depend on themselves",
        ),
        ("DEFINE SCOPE A AS; JOIN COMPONENT TO A", "this is no rule"),
        ("DEFINE SCOPE A AS SET x = n.price", "only inside of a rule"),
    ],
)
def test_a_graph_that_cannot_be_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(ScopeError, match=complaint):
        Scopes.parse(text)


def test_statements_that_do_not_refer_to_each_other_may_change_places() -> None:
    parts = [
        "DEFINE SCOPE S AS;",
        "DEFINE SCOPE A AS ALL FROM x SUPERSCOPE ALL FROM S;",
        "DEFINE COMPONENT x AS SET r = 1;",
    ]
    graphs = {Scopes.parse("".join(order)).graph for order in permutations(parts)}
    assert len(graphs) == 1


def test_comments_and_cases_do_not_matter() -> None:
    text = "define scope s as -- a comment; with a semicolon\n  all from x # and another\n"
    assert Scopes.parse(text).members("s") == ["x"]


def test_files_are_text_json_and_toml(tmp_path: Path) -> None:
    (tmp_path / "a.scopes").write_text("DEFINE SCOPE S AS ALL FROM x INTERFACES OUTPUT(Quote)")
    row = {"define": "S", "select": [{"from": ["x"]}], "interfaces": {"output": "Quote"}}
    (tmp_path / "a.json").write_text(json.dumps({"statements": [row]}))
    (tmp_path / "a.toml").write_text(
        '[[statements]]\ndefine = "S"\nselect = [{ from = ["x"] }]\ninterfaces = { output = "Quote" }\n'
    )
    graphs = {suffix: Scopes.read(tmp_path / f"a.{suffix}").graph for suffix in ("scopes", "json", "toml")}
    assert graphs["scopes"] == graphs["json"] == graphs["toml"]
    (tmp_path / "b.json").write_text('{"statements": [{"define": "S", "colour": 1}]}')
    with pytest.raises(ScopeError, match="statement 1: define has no key 'colour'"):
        Scopes.read(tmp_path / "b.json")
