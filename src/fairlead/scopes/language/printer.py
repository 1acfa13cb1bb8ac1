"""From statements to text, in the one canonical spelling.

Law: `parse_statements(print_statements(s)) == s`. Rules stand last in a statement, since a change inside of a rule
ends where the next rule begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

from fairlead.errors import ScopeError
from fairlead.filters import (
    EVERYTHING,
    NOTHING,
    And,
    Attribute,
    Constraint,
    Filter,
    Not,
    Op,
    Or,
    TypeName,
    render,
)
from fairlead.filters.terms import decimal_of, quote_name, quote_step
from fairlead.model import Instant
from fairlead.scopes.conditions import HasInterface, IsRole, is_plain
from fairlead.scopes.language.reader import KEYWORDS
from fairlead.scopes.language.statements import (
    STAR,
    Action,
    Alter,
    Between,
    Border,
    Create,
    Define,
    Deploy,
    DropScope,
    Event,
    Features,
    Join,
    Leave,
    Properties,
    Qualifier,
    Ranked,
    Reference,
    Rule,
    Selection,
    Source,
    Statement,
)
from fairlead.scopes.mappings import (
    Assign,
    Block,
    Code,
    Computed,
    Constant,
    Converted,
    Copied,
    Drop,
    Expression,
    Keep,
    Rename,
    Step,
    Steps,
)
from fairlead.scopes.policies import (
    All,
    Chain,
    Choice,
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

__all__ = [
    "architecture_text",
    "name_text",
    "policy_text",
    "print_condition",
    "print_statement",
    "print_statements",
    "qualifier_text",
    "rule_text",
    "side_text",
    "source_text",
    "step_text",
    "value_text",
]

_WORD: Final = re.compile(r"[^\W\d]\w*(?:-\w+)*(?:#[0-9]+)?")


def print_statements(statements: Iterable[Statement]) -> str:
    """The text of statements, one after the other."""
    return "".join(f"{print_statement(each)};\n" for each in statements)


def print_statement(statement: Statement) -> str:
    """The text of one statement, without what ends it."""
    since = f" SINCE {value_text(statement.since)}" if statement.since is not None else ""
    match statement:
        case Define():
            kind = "COMPONENT" if statement.component else "ABSTRACT SCOPE" if statement.abstract else "SCOPE"
            return f"DEFINE {kind} {name_text(statement.name)} AS{_clauses(statement)}{since}"
        case Deploy():
            instance = "" if statement.instance is None else f" AS {name_text(statement.instance)}"
            architecture = (
                f"\n  {architecture_text(statement.architecture)}" if statement.architecture else ""
            )
            return f"DEPLOY SCOPE {name_text(statement.name)}{instance}{_clauses(statement)}{architecture}{since}"
        case DropScope(name):
            return f"DROP SCOPE {name_text(name)}{since}"
    return f"{_action(statement, break_lines=True)}{since}"


def _action(action: Action, break_lines: bool = False) -> str:
    match action:
        case Alter():
            mode = f" {action.mode.upper()}" if action.mode else ""
            return f"ALTER SCOPE {name_text(action.name)}{mode}{_clauses(action, break_lines)}"
        case Join(component, scope):
            return f"JOIN {_subject(component)} TO {name_text(scope)}"
        case Leave(component, scope):
            return f"LEAVE {_subject(component)} FROM {name_text(scope)}"
        case Create(include, ident):
            named = f" {name_text(ident)}" if ident is not None else ""
            return f"CREATE NOW{' INCLUDE COMPONENT' if include else ''}{named}"


def _subject(component: str | None) -> str:
    return "COMPONENT" if component is None else name_text(component)


def name_text(name: str) -> str:
    """A name as it is written: in backquotes where it is no word, or a word of the language."""
    if _WORD.fullmatch(name) and name.upper() not in KEYWORDS | {"AND", "OR", "NOT"}:
        return name
    return ".".join(quote_step(step) for step in name.split("."))


def architecture_text(text: str) -> str:
    """The implementation of a scope as text, with the name of a broker as it is written."""
    word, bracket, name = text.partition("(")
    if bracket:
        return f"{word}({name_text(name[:-1])})"
    word, gateway, name = text.partition(" GATEWAY ")
    return f"{word}{gateway}{name_text(name)}" if gateway else text


def _clauses(statement: Define | Deploy | Alter, break_lines: bool = True) -> str:
    lines = [*map(_selection, statement.selections), *_features(statement.features)]
    return "".join(f"\n  {line}" if break_lines else f" {line}" for line in lines)


def _selection(selection: Selection) -> str:
    ident = f"{name_text(selection.ident)}: " if selection.ident is not None else ""
    kind = "SUPERSCOPES " if selection.superscopes else ""
    sources = ", ".join(map(source_text, selection.sources))
    where = f" WHERE {print_condition(selection.where)}" if selection.where != EVERYTHING else ""
    properties = f" : {_properties(selection.properties)}" if selection.properties != Properties() else ""
    return f"{ident}{kind}{qualifier_text(selection.qualifier)} FROM {sources}{where}{properties}"


def qualifier_text(qualifier: Qualifier) -> str:
    """ALL, TOP(…), or [n..m]."""
    match qualifier:
        case Ranked(attribute, count, largest):
            return f"{'TOP' if largest else 'BOTTOM'}({name_text(attribute)}, {count})"
        case Between(least, most):
            return f"[{'' if least is None else least}..{'' if most is None else most}]"
    return "ALL"


def source_text(source: Source) -> str:
    """A source of a selection."""
    if source == STAR:
        return "*"
    return f"{'MEMBERS(' * source.depth}{name_text(source.name)}{')' * source.depth}"


def _features(features: Features) -> Iterable[str]:
    yield from _border("INTERFACES", features.border)
    yield from _border("IMPOSE INTERFACES", features.imposed)
    if features.roles:
        yield f"ROLES {', '.join(map(name_text, features.roles))}"
    if features.attributes:
        each = (f"{name_text(name)} = {_set_value(value)}" for name, value in features.attributes)
        yield f"SET {', '.join(each)}"
    yield from _maps(features.outward, features.inward)
    yield from (policy_text(*each) for each in features.policies)
    if features.traverse is not None:
        yield f"TRAVERSE {_TRAVERSE[features.traverse]}"
    if features.admits is not None:
        yield f"ADMIT WHERE {print_condition(features.admits)}"
    for ident, properties in features.named:
        yield f"{name_text(ident)}: {_properties(properties)}"
    yield from map(rule_text, features.rules)


_TRAVERSE: Final = {each: each.value.upper() for each in Traverse}


def _set_value(value: Any) -> str:
    if isinstance(value, Reference):
        return (
            f"{name_text(value.of) if value.of != 'component' else 'component'}.{quote_name(value.attribute)}"
        )
    return value_text(value)


def _properties(properties: Properties) -> str:
    inside = [
        *_border("INTERFACES", properties.border),
        *_maps(properties.outward, properties.inward),
        *(policy_text(*each) for each in properties.policies),
    ]
    return f"{{ {' '.join(inside)} }}"


def _border(keyword: str, border: Border) -> Iterable[str]:
    sides = [
        f"{word}({side_text(filter)})"
        for word, filter in (("INPUT", border.input), ("OUTPUT", border.output))
        if filter is not None
    ]
    if sides:
        yield f"{keyword} {', '.join(sides)}"


def side_text(filter: Filter) -> str:
    """The text between the parentheses of INPUT and OUTPUT."""
    if filter == NOTHING:
        return "0"
    if filter == EVERYTHING:
        return "1"
    parts: Sequence[Filter] = filter.parts if isinstance(filter, Or) else (filter,)
    return ", ".join(map(_item, parts))


def _item(filter: Filter) -> str:
    match filter:
        case Constraint(term=Attribute("type"), op=Op.IS, operand=TypeName(name)) if (
            _WORD.fullmatch(name) and name not in ("true", "false") and "-" not in name and "#" not in name
        ):
            return name
    return render(filter)


def print_condition(condition: Filter) -> str:
    """A condition on components."""
    return _condition(condition, outer=0)


def _condition(condition: Filter, *, outer: int) -> str:
    if is_plain(condition):
        text = render(condition)
        joined = (isinstance(condition, Or) and len(condition.parts) > 1 and outer > 0) or (
            isinstance(condition, And) and len(condition.parts) > 1 and outer > 1
        )
        return f"({text})" if joined else text
    match condition:
        case HasInterface(output, filter):
            return f"HAS {'OUTPUT' if output else 'INPUT'}({side_text(filter)})"
        case IsRole(role):
            return f"IS ROLE({name_text(role)})"
        case Not(part):
            return f"not {_condition(part, outer=2)}"
        case And(parts):
            text = " and ".join(_condition(part, outer=2) for part in parts)
            return f"({text})" if outer > 1 else text
        case Or(parts):
            text = " or ".join(_condition(part, outer=1) for part in parts)
            return f"({text})" if outer > 0 else text
    raise ScopeError(f"the language has no text for the condition {condition!r}")


# -- mappings ------------------------------------------------------------------------------------------


def _maps(outward: Steps | None, inward: Steps | None) -> Iterable[str]:
    for word, steps in (("OUTWARD", outward), ("INWARD", inward)):
        if steps is not None:
            yield f"MAP {word} {{ {', '.join(map(step_text, steps))} }}" if steps else f"MAP {word} {{ }}"


def step_text(step: Step) -> str:
    """A step of a mapping."""
    match step:
        case Assign(name, expression):
            return f"{quote_name(name)} = {_expression(expression)}"
        case Rename(old, new):
            return f"RENAME {quote_name(old)} TO {quote_name(new)}"
        case Drop(name):
            return f"DROP {quote_name(name)}"
        case Keep(names):
            return f"KEEP {', '.join(map(quote_name, names))}"
        case Block(filter):
            return f"BLOCK WHERE {render(filter)}"
        case Code(reference):
            return _reference(reference)


def _reference(reference: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*", reference):
        raise ScopeError(
            f"the function {reference} has no text",
            hint="name it package.module:function, so that it can be loaded",
        )
    return reference


def _expression(expression: Expression) -> str:
    match expression:
        case Constant(value):
            return value_text(value)
        case Copied(name):
            return quote_name(name)
        case Converted(kind, name):
            return f"{kind}({quote_name(name)})"
        case Computed(monomials):
            return _sum(monomials)


def _sum(monomials: Iterable[tuple[tuple[str, ...], Fraction]]) -> str:
    text = ""
    for names, coefficient in monomials:
        size = str(decimal_of(abs(coefficient))).lower()
        factors = [*([size] if size != "1" or not names else []), *map(quote_name, names)]
        text += f" {'-' if coefficient < 0 else '+'} {' * '.join(factors)}"
    return text.removeprefix(" + ").lstrip()


# -- policies and rules --------------------------------------------------------------------------------


def policy_text(direction: Direction, policy: Policy) -> str:
    """A policy."""
    when = f" WHEN ({render(policy.when)})" if policy.when != EVERYTHING else ""
    return f"{direction.name} POLICY {_choice(policy.choice)}{when}"


def _choice(choice: Choice) -> str:
    match choice:
        case All():
            return "ALL"
        case Nobody():
            return "NONE"
        case To(names):
            return f"TO {', '.join(map(name_text, names))}"
        case One(in_turn):
            return f"ONE BY {'TURN' if in_turn else 'HASH'}"
        case Top(attribute, count):
            return f"TOP({name_text(attribute)}, {count})"
        case Chain(names):
            return f"CHAIN({', '.join(map(name_text, names))})"
        case Rate(limit, window):
            return f"RATE {limit} PER {_duration(window)}"
        case Delay(us):
            return f"DELAY {_duration(us)}"
        case Hold(until, discard):
            dropping = f" DISCARD ON ({render(discard)})" if discard != NOTHING else ""
            return f"HOLD UNTIL ({render(until)}){dropping}"
        case Own(reference):
            return _reference(reference)


_UNITS: Final = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
"""The units of durations, in microseconds."""


def _duration(us: int) -> str:
    unit, size = next(pair for pair in _UNITS.items() if us % pair[1] == 0)
    return f"{us // size}{unit}"


def rule_text(rule: Rule) -> str:
    """A rule."""
    condition = f" IF {print_condition(rule.condition)}" if rule.condition != EVERYTHING else ""
    return f"UPDATE ON {_event(rule.event)}{condition} DO {', '.join(map(_action, rule.actions))}"


def _event(event: Event) -> str:
    if event.kind in ("join", "leave"):
        names = ("*" if name == "*" else name_text(name) for name in (event.component, event.scope))
        return f"{event.kind}({', '.join(names)})"
    named = f"{name_text(event.ident)} : " if event.ident is not None else ""
    return f"{event.kind}({named}{side_text(event.filter)})"


def value_text(value: Any) -> str:
    """A value as the language writes it."""
    if isinstance(value, Instant):
        return f't"{value}"'
    return render(Constraint(Attribute("v"), Op.EQ, value)).removeprefix("v = ")
