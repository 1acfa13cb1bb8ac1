"""Scope graphs as JSON or TOML: the same statements, one table each.

    {"statements": [
      {"define": "temp", "select": [{"from": ["MEMBERS(world)"], "where": "sensor = 1"}],
       "interfaces": {"output": "Alarm"}},
      {"deploy": "temp", "superscopes": …}
    ]}

The small parts (conditions, interfaces, steps of mappings, policies, rules) are texts of the scope graph language.
A document is turned into the text that says the same, and that text is read: there is one meaning.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.errors import FairleadError, ScopeError, ScopeSyntaxError
from fairlead.filters import EVERYTHING, Schema
from fairlead.model.encoding import decode, encode, parse_json
from fairlead.scopes.language.parser import parse_statements
from fairlead.scopes.language.printer import (
    architecture_text,
    name_text,
    policy_text,
    print_condition,
    qualifier_text,
    rule_text,
    side_text,
    source_text,
    step_text,
    value_text,
)
from fairlead.scopes.language.statements import (
    Alter,
    Border,
    Define,
    Deploy,
    DropScope,
    Every,
    Features,
    Join,
    Leave,
    Properties,
    Reference,
    Selection,
    Statement,
)
from fairlead.scopes.mappings import Steps

__all__ = ["from_document", "read_statements", "to_document"]

_CLAUSES: Final = frozenset(
    {
        "select",
        "interfaces",
        "impose",
        "roles",
        "set",
        "map",
        "policies",
        "traverse",
        "admit",
        "rules",
        "named",
    }
)
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "define": _CLAUSES | {"kind", "since"},
    "deploy": _CLAUSES | {"as", "architecture", "since"},
    "alter": _CLAUSES | {"mode", "since"},
    "drop": frozenset({"since"}),
    "join": frozenset({"to", "since"}),
    "leave": frozenset({"from", "since"}),
}
_KINDS: Final = {"scope": "SCOPE", "abstract scope": "ABSTRACT SCOPE", "component": "COMPONENT"}
_SELECTION: Final = frozenset({"id", "what", "qualifier", "from", "where", "interfaces", "map", "policies"})
_PROPERTIES: Final = frozenset({"interfaces", "map", "policies"})


def read_statements(path: str | Path, schema: Schema | None = None) -> tuple[Statement, ...]:
    """The statements of a file: JSON or TOML by its suffix, otherwise the scope graph language."""
    where = Path(path)
    raw = where.read_bytes()
    try:
        if where.suffix == ".json":
            return from_document(parse_json(raw), schema)
        text = raw.decode("utf-8-sig")
        if where.suffix == ".toml":
            return from_document(tomllib.loads(text), schema)
    except UnicodeDecodeError as error:
        raise ScopeError(f"{where}: not UTF-8: {error.reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise ScopeError(f"{where}: {error}") from None
    return parse_statements(text, schema)


# -- reading ---------------------------------------------------------------------------------------------------


def from_document(document: Any, schema: Schema | None = None) -> tuple[Statement, ...]:
    """The statements of a document."""
    rows = document.get("statements") if isinstance(document, dict) else None
    if not isinstance(rows, list) or set(document) != {"statements"}:
        raise ScopeError(
            "a document has one key, statements, with a list", hint='{"statements": [{"define": …}]}'
        )
    found: list[Statement] = []
    for number, row in enumerate(rows, start=1):
        try:
            found += parse_statements(_text(row), schema)
        except ScopeSyntaxError as error:
            raise ScopeError(f"statement {number}, written out: {error}") from error
        except FairleadError as error:
            raise ScopeError(f"statement {number}: {error}") from error
    return tuple(found)


def _text(row: Any) -> str:
    kinds = [key for key in _KEYS if isinstance(row, dict) and key in row]
    if len(kinds) != 1:
        raise ScopeError(f"a statement is a table with one of {', '.join(_KEYS)}")
    (kind,) = kinds
    _only(row, _KEYS[kind] | {kind}, kind)
    name = name_text(_string(row[kind], kind))
    since = f" SINCE {value_text(decode(row['since']))}" if "since" in row else ""
    match kind:
        case "define":
            what = row.get("kind", "scope")
            if what not in _KINDS:
                raise ScopeError(f"kind is one of {', '.join(_KINDS)}, not {what!r}")
            head = f"DEFINE {_KINDS[what]} {name} AS"
        case "deploy":
            head = f"DEPLOY SCOPE {name}" + (
                f" AS {name_text(_string(row['as'], 'as'))}" if "as" in row else ""
            )
        case "alter":
            head = f"ALTER SCOPE {name} {_string(row.get('mode', ''), 'mode')}"
        case "drop":
            head = f"DROP SCOPE {name}"
        case "join":
            head = f"JOIN {name} TO {name_text(_string(row.get('to'), 'to'))}"
        case _:
            head = f"LEAVE {name} FROM {name_text(_string(row.get('from'), 'from'))}"
    clauses = "\n  ".join(_clauses(row))
    return f"{head}\n  {clauses} {_string(row.get('architecture', ''), 'architecture')}{since}"


def _clauses(row: Mapping[str, Any]) -> Iterable[str]:
    for each in _list(row.get("select", []), "select"):
        _only(each, _SELECTION, "select")
        ident = f"{name_text(_string(each['id'], 'id'))}: " if "id" in each else ""
        what = each.get("what", "members")
        if what not in ("members", "superscopes"):
            raise ScopeError(f"what is members or superscopes, not {what!r}")
        kind = "SUPERSCOPES " if what == "superscopes" else ""
        sources = ", ".join(_string(source, "from") for source in _list(each.get("from"), "from"))
        where = f" WHERE {_string(each['where'], 'where')}" if "where" in each else ""
        properties = " ".join(_properties(each))
        braces = f" : {{ {properties} }}" if properties else ""
        yield f"{ident}{kind}{_string(each.get('qualifier', 'ALL'), 'qualifier')} FROM {sources}{where}{braces}"
    yield from _properties(row)
    if "impose" in row:
        yield f"IMPOSE {_interfaces(row['impose'])}"
    if row.get("roles"):
        yield f"ROLES {', '.join(name_text(_string(role, 'roles')) for role in _list(row['roles'], 'roles'))}"
    if row.get("set"):
        values = (f"{name_text(name)} = {_set_value(value)}" for name, value in row["set"].items())
        yield f"SET {', '.join(values)}"
    if "traverse" in row:
        yield f"TRAVERSE {_string(row['traverse'], 'traverse')}"
    if "admit" in row:
        yield f"ADMIT WHERE {_string(row['admit'], 'admit')}"
    for ident, properties in row.get("named", {}).items():
        _only(properties, _PROPERTIES, f"named.{ident}")
        yield f"{name_text(ident)}: {{ {' '.join(_properties(properties))} }}"
    yield from (_string(rule, "rules") for rule in _list(row.get("rules", []), "rules"))


def _properties(row: Mapping[str, Any]) -> Iterable[str]:
    if "interfaces" in row:
        yield _interfaces(row["interfaces"])
    for direction, steps in row.get("map", {}).items():
        inside = ", ".join(_string(step, "map") for step in _list(steps, "map"))
        yield f"MAP {_string(direction, 'map').upper()} {{ {inside} }}"
    yield from (_string(policy, "policies") for policy in _list(row.get("policies", []), "policies"))


def _interfaces(given: Any) -> str:
    _only(given, frozenset({"input", "output"}), "interfaces")
    return "INTERFACES " + ", ".join(f"{side.upper()}({_string(text, side)})" for side, text in given.items())


def _set_value(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"of", "attribute"}:
        return f"{value['of']}.{value['attribute']}"
    return value_text(decode(value))


def _only(given: Any, known: frozenset[str], where: str) -> None:
    if not isinstance(given, dict):
        raise ScopeError(f"{where} is a table, not {given!r:.60}")
    unknown = sorted(set(given) - known)
    if unknown:
        raise ScopeError(f"{where} has no key {unknown[0]!r}", hint=f"there is {', '.join(sorted(known))}")


def _string(given: Any, where: str) -> str:
    if not isinstance(given, str):
        raise ScopeError(f"{where} is a text, not {given!r:.60}")
    return given


def _list(given: Any, where: str) -> list[Any]:
    if not isinstance(given, list):
        raise ScopeError(f"{where} is a list, not {given!r:.60}")
    return given


# -- writing ---------------------------------------------------------------------------------------------------


def to_document(statements: Iterable[Statement]) -> dict[str, Any]:
    """Statements as JSON has them."""
    return {"statements": [_row(statement) for statement in statements]}


def _row(statement: Statement) -> dict[str, Any]:
    row: dict[str, Any]
    match statement:
        case Define():
            row = {"define": statement.name}
            if statement.component or statement.abstract:
                row["kind"] = "component" if statement.component else "abstract scope"
        case Deploy():
            row = {"deploy": statement.name}
            if statement.instance is not None:
                row["as"] = statement.instance
            if statement.architecture:
                row["architecture"] = architecture_text(statement.architecture)
        case Alter():
            row = {"alter": statement.name}
            if statement.mode:
                row["mode"] = statement.mode
        case DropScope(name):
            row = {"drop": name}
        case Join(component, scope):
            row = {"join": component, "to": scope}
        case Leave(component, scope):
            row = {"leave": component, "from": scope}
    if isinstance(statement, Define | Deploy | Alter):
        if statement.selections:
            row["select"] = [_selection(each) for each in statement.selections]
        row |= _features(statement.features)
    if statement.since is not None:
        row["since"] = encode(statement.since)
    return row


def _selection(selection: Selection) -> dict[str, Any]:
    row: dict[str, Any] = {"from": [source_text(source) for source in selection.sources]}
    if selection.ident is not None:
        row["id"] = selection.ident
    if selection.superscopes:
        row["what"] = "superscopes"
    if selection.qualifier != Every():
        row["qualifier"] = qualifier_text(selection.qualifier)
    if selection.where != EVERYTHING:
        row["where"] = print_condition(selection.where)
    return row | _shared(selection.properties)


def _features(features: Features) -> dict[str, Any]:
    row = _shared(features)
    if features.imposed != Border():
        row["impose"] = _border(features.imposed)
    if features.roles:
        row["roles"] = list(features.roles)
    if features.attributes:
        row["set"] = {
            name: {"of": value.of, "attribute": value.attribute}
            if isinstance(value, Reference)
            else encode(value)
            for name, value in features.attributes
        }
    if features.traverse is not None:
        row["traverse"] = features.traverse.value.upper()
    if features.admits is not None:
        row["admit"] = print_condition(features.admits)
    if features.named:
        row["named"] = {ident: _shared(properties) for ident, properties in features.named}
    if features.rules:
        row["rules"] = [rule_text(rule) for rule in features.rules]
    return row


def _shared(given: Properties | Features) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if given.border != Border():
        row["interfaces"] = _border(given.border)
    maps: dict[str, Steps | None] = {"outward": given.outward, "inward": given.inward}
    if any(steps is not None for steps in maps.values()):
        row["map"] = {name: list(map(step_text, steps)) for name, steps in maps.items() if steps is not None}
    if given.policies:
        row["policies"] = [policy_text(*each) for each in given.policies]
    return row


def _border(border: Border) -> dict[str, str]:
    sides = {"input": border.input, "output": border.output}
    return {name: side_text(filter) for name, filter in sides.items() if filter is not None}
