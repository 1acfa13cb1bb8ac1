"""From text to statements.

    statement  = DEFINE [ABSTRACT] SCOPE name AS {selection} {feature} | DEFINE COMPONENT name AS …
               | DEPLOY [SCOPE] name [AS name] {selection} {feature} [architecture]
               | ALTER SCOPE name [ADD | DEL] {selection} {feature} | DROP SCOPE name
               | JOIN name TO name | LEAVE name FROM name                          each with [SINCE time]
    selection  = [name ":"] (SUPERSCOPE[S] | [MEMBER[S]]) [qualifier] FROM source,.. [WHERE condition]
                 [":" "{" {property} "}"]
    feature    = name ":" "{" {property} "}" | INTERFACES iface,.. | IMPOSE INTERFACES iface,.. | ROLES name,..
               | SET name "=" value,.. | map | policy | rule | ADMIT WHERE condition
    property   = INTERFACES iface,.. | map | policy

Keywords are written in any case. A statement ends where the next one begins, or at a semicolon. `docs/scopes.md`
has the whole grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead.filters import EVERYTHING, NOTHING, Filter, Schema
from fairlead.filters.language.lexer import END, NAME, NUMBER, TIME, name_in
from fairlead.model import Instant
from fairlead.scopes.language.reader import Words
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
    Every,
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
    CONVERSIONS,
    Assign,
    Block,
    Code,
    Computed,
    Constant,
    Converted,
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

__all__ = ["parse_statements"]

STATEMENTS: Final = ("DEFINE", "DEPLOY", "ALTER", "DROP", "JOIN", "LEAVE")
_NOTIFICATION_EVENTS: Final = ("pub", "con")
_FILTER_EVENTS: Final = ("sub", "unsub", "adv", "unadv")
_MEMBERSHIP_EVENTS: Final = ("join", "leave")
_POLICIES: Final = {
    "PUBLISHING": Direction.PUBLISHING,
    "DELIVERY": Direction.DELIVERY,
    "INTERNAL": Direction.INTERNAL,
}
_SELECTION: Final = ("SUPERSCOPE", "SUPERSCOPES", "MEMBER", "MEMBERS", "ALL", "TOP", "BOTTOM", "FROM")
_CODE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
A_CLAUSE: Final = (
    "a selection",
    "INTERFACES",
    "IMPOSE",
    "ROLES",
    "SET",
    "MAP",
    "a policy",
    "UPDATE",
    "ADMIT",
)


def parse_statements(text: str, schema: Schema | None = None) -> tuple[Statement, ...]:
    """The statements of a text. `ScopeSyntaxError` or `ScopeError`, with the location, if it cannot be read."""
    return _Parser(text, schema).statements()


@dataclass(slots=True)
class _Clauses:
    """The clauses of a statement, as they are read."""

    selections: list[Selection] = field(default_factory=list)
    features: dict[str, Any] = field(default_factory=dict)

    def made(self) -> tuple[tuple[Selection, ...], Features]:
        made: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in self.features.items()
        }
        return tuple(self.selections), Features(**made)


class _Parser(Words):
    __slots__ = ()

    def statements(self) -> tuple[Statement, ...]:
        found: list[Statement] = []
        while self.kinds[self.at] != END:
            if self.sign(";"):
                self.at += 1
                continue
            found.append(self.statement())
        return tuple(found)

    def statement(self) -> Statement:
        read: Mapping[str, Callable[[], Statement]] = {
            "DEFINE": self.define,
            "DEPLOY": self.deploy,
            "ALTER": self.alter,
            "DROP": self.drop,
            "JOIN": self.join,
            "LEAVE": self.leave,
        }
        word = self.word()
        if word not in read:
            raise self.unexpected(STATEMENTS)
        self.at += 1
        statement = read[word]()
        if self.took("SINCE"):
            statement = replace(statement, since=self.instant())
        if self.kinds[self.at] != END and not self.sign(";") and self.word() not in STATEMENTS:
            raise self.unexpected((*A_CLAUSE, "the next statement"))
        return statement

    def instant(self) -> Instant:
        if self.kinds[self.at] in (TIME, NUMBER):
            value = self.value()
            return value if isinstance(value, Instant) else Instant(int(value))
        raise self.unexpected(("a time",), hint='t"2024-05-01T10:00:00Z", or microseconds since 1970')

    # -- statements ----------------------------------------------------------------------------------------------

    def define(self) -> Statement:
        if self.took("COMPONENT"):
            name = self.symbol()
            self.demand("AS")
            selections, features = self.clauses().made()
            return Define(name, selections, features, component=True)
        abstract = self.took("ABSTRACT")
        if not self.took("SCOPE"):
            raise self.unexpected(("SCOPE",) if abstract else ("SCOPE", "ABSTRACT SCOPE", "COMPONENT"))
        name = self.symbol()
        self.demand("AS")
        selections, features = self.clauses().made()
        return Define(name, selections, features, abstract=abstract)

    def deploy(self) -> Statement:
        self.took("SCOPE")
        name = self.symbol()
        instance = self.symbol() if self.took("AS") else None
        clauses = self.clauses()
        architecture = self.architecture()
        selections, features = clauses.made()
        return Deploy(name, instance, selections, features, architecture)

    def alter(self, *, in_rule: bool = False) -> Alter:
        self.demand("SCOPE")
        name = self.symbol()
        mode = "add" if self.took("ADD") else "del" if self.took("DEL") else ""
        selections, features = self.clauses(in_rule=in_rule).made()
        return Alter(name, mode, selections, features)

    def drop(self) -> Statement:
        self.demand("SCOPE")
        return DropScope(self.symbol())

    def join(self) -> Join:
        name = self.subject()
        self.demand("TO")
        return Join(name, self.symbol())

    def leave(self) -> Leave:
        name = self.subject()
        self.demand("FROM")
        return Leave(name, self.symbol())

    def subject(self) -> str | None:
        """A component, or COMPONENT for the one that triggered a rule."""
        return None if self.took("COMPONENT") else self.symbol()

    def architecture(self) -> str:
        """The architecture that implements a scope, in one spelling."""
        for word in ("COLLAPSED", "ADDRESSES"):
            if self.took(word):
                return word
        for word in ("HUB", "BROKERSCOPE"):
            if self.took(word):
                self.expect("(")
                name = self.symbol("the name of a broker")
                self.expect(")")
                return f"{word}({name})"
        if self.took("INTEGRATED"):
            if self.took("GATEWAY"):
                return f"INTEGRATED GATEWAY {self.symbol('the name of a broker')}"
            for word in ("FIRST", "PUBLISHER"):
                if self.took(word):
                    return f"INTEGRATED {word}"
            return "INTEGRATED"
        return ""

    # -- clauses -------------------------------------------------------------------------------------------------

    def clauses(self, *, in_rule: bool = False) -> _Clauses:
        found = _Clauses()
        while self.clause(found, in_rule=in_rule):
            pass
        return found

    def clause(self, into: _Clauses, *, in_rule: bool) -> bool:
        """Read a clause, if one stands here; a change inside of a rule ends where the next rule begins."""
        features = into.features
        word = self.word()
        if self.kinds[self.at] == NAME and self.sign(":", 1):
            ident = self.symbol()
            self.at += 1
            if self.sign("{"):
                features.setdefault("named", []).append((ident, self.properties()))
            else:
                into.selections.append(self.selection(ident))
        elif word in _SELECTION or self.sign("["):
            into.selections.append(self.selection(None))
        elif word == "INTERFACES":
            features["border"] = self.border(features.get("border", Border()))
        elif word == "IMPOSE":
            self.at += 1
            features["imposed"] = self.border(features.get("imposed", Border()))
        elif word == "ROLES":
            self.at += 1
            features.setdefault("roles", []).extend(self.several(self.symbol))
        elif word == "SET":
            self.at += 1
            features.setdefault("attributes", []).extend(self.several(self.assignment))
        elif word == "MAP":
            direction, made = self.mapping()
            features[direction] = made
        elif word in _POLICIES:
            features.setdefault("policies", []).append(self.policy())
        elif word == "TRAVERSE":
            self.at += 1
            features["traverse"] = self.traverse()
        elif word == "UPDATE" and not in_rule:
            features.setdefault("rules", []).append(self.rule())
        elif word == "ADMIT":
            self.at += 1
            self.demand("WHERE")
            features["admits"] = self.condition()
        elif word == "DO":
            raise self.problem(
                "DO commands are not used", self.starts[self.at], hint="UPDATE ON … DO … is a rule"
            )
        else:
            return False
        return True

    def selection(self, ident: str | None) -> Selection:
        superscopes = self.took("SUPERSCOPE") or self.took("SUPERSCOPES")
        if not superscopes and self.word() in ("MEMBER", "MEMBERS"):
            self.at += 1
        qualifier = self.qualifier()
        self.demand("FROM")
        sources = self.several(self.source_of)
        where: Filter = EVERYTHING
        if self.took("WHERE"):
            where = self.condition()
        properties = Properties()
        if self.sign(":") and self.sign("{", 1):
            self.at += 1
            properties = self.properties()
        return Selection(tuple(sources), superscopes, qualifier, where, ident, properties)

    def qualifier(self) -> Qualifier:
        if self.took("ALL"):
            return Every()
        for word in ("TOP", "BOTTOM"):
            if self.took(word):
                attribute, count = self.ranking()
                return Ranked(attribute, count, largest=word == "TOP")
        if not self.sign("["):
            return Every()
        self.at += 1
        least = self.whole() if self.kinds[self.at] == NUMBER else None
        self.expect(".")
        self.expect(".")
        most = self.whole() if self.kinds[self.at] == NUMBER else None
        start = self.starts[self.at]
        self.expect("]", "a whole number")
        if least is not None and most is not None and least > most:
            raise self.problem(f"at least {least} and at most {most} cannot be", start)
        return Between(least, most)

    def ranking(self) -> tuple[str, int]:
        self.expect("(")
        attribute = self.symbol("the name of an attribute")
        self.expect(",")
        count = self.whole()
        self.expect(")")
        return attribute, count

    def source_of(self) -> Source:
        if self.sign("*"):
            self.at += 1
            return STAR
        if self.word() == "MEMBERS" and self.sign("(", 1):
            self.at += 2
            inner = self.source_of()
            if inner == STAR:
                raise self.problem("* has no members of its own", self.starts[self.at - 1])
            self.expect(")")
            return Source(inner.name, inner.depth + 1)
        return Source(self.symbol("the name of a component"))

    def properties(self) -> Properties:
        self.expect("{")
        found: dict[str, Any] = {}
        while not self.sign("}"):
            word = self.word()
            if word == "INTERFACES":
                found["border"] = self.border(found.get("border", Border()))
            elif word == "MAP":
                direction, made = self.mapping()
                found[direction] = made
            elif word in _POLICIES:
                found["policies"] = (*found.get("policies", ()), self.policy())
            else:
                raise self.unexpected(("INTERFACES", "MAP", "a policy", "}"))
        self.at += 1
        return Properties(**found)

    # -- interfaces, attributes ----------------------------------------------------------------------------------

    def border(self, known: Border) -> Border:
        self.demand("INTERFACES")
        while True:
            word, start = self.word(), self.starts[self.at]
            if word not in ("INPUT", "OUTPUT"):
                raise self.unexpected(("INPUT", "OUTPUT"))
            side = word.lower()
            if getattr(known, side) is not None:
                raise self.problem(
                    f"{word} is given twice", start, hint="a comma within the parentheses means or"
                )
            known = replace(known, **{side: self.interface_filter()})
            if not (self.sign(",") and self.word(1) in ("INPUT", "OUTPUT")):
                return known
            self.at += 1

    def assignment(self) -> tuple[str, Any]:
        name = self.symbol("the name of an attribute")
        self.expect("=")
        text = self.texts[self.at]
        if self.kinds[self.at] == NAME and "." in text and self.word() not in ("TRUE", "FALSE", "NULL"):
            self.at += 1
            of, _, attribute = name_in(text).partition(".")
            return name, Reference(of.lower() if of.upper() == "COMPONENT" else of, attribute)
        return name, self._translated(self.value)

    # -- mappings ------------------------------------------------------------------------------------------------

    def code(self) -> str | None:
        """`package.module:function`, if that stands here."""
        found = _CODE.match(self.source, self.starts[self.at])
        if found is None or self.kinds[self.at] != NAME:
            return None
        while self.starts[self.at] < found.end() and self.kinds[self.at] != END:
            self.at += 1
        return found[0]

    def mapping(self) -> tuple[str, Steps]:
        self.demand("MAP")
        if self.word() not in ("INWARD", "OUTWARD"):
            raise self.unexpected(("INWARD", "OUTWARD"))
        direction = self.word().lower()
        self.at += 1
        if reference := self.code():
            return direction, (Code(reference),)
        self.expect("{", "package.module:function")
        steps: list[Step] = []
        while not self.sign("}"):
            steps.append(self.step())
            if not self.sign(","):
                break
            self.at += 1
        self.expect("}", ",")
        return direction, tuple(steps)

    def step(self) -> Step:
        start = self.starts[self.at]
        if not self.sign("=", 1):
            if self.took("RENAME"):
                old = self.attribute()
                self.demand("TO")
                return self.located(start, Rename, old, self.attribute())
            if self.took("DROP"):
                return self.located(start, Drop, self.attribute())
            if self.took("KEEP"):
                names = [self.attribute()]
                while (
                    self.sign(",")
                    and self.kinds[self.at + 1] == NAME
                    and self.texts[self.at + 2] in (",", "}")
                ):
                    self.at += 1
                    names.append(self.attribute())
                return self.located(start, Keep, tuple(names))
            if self.took("BLOCK"):
                self.demand("WHERE")
                return Block(self.plain_filter())
            if reference := self.code():
                return Code(reference)
        if self.kinds[self.at] != NAME:
            raise self.unexpected(("a name and =", "RENAME", "DROP", "KEEP", "BLOCK"))
        name = self.attribute()
        self.expect("=")
        expression = self.expression()
        return self.located(start, Assign, name, expression)

    def attribute(self) -> str:
        if self.kinds[self.at] != NAME:
            raise self.unexpected(("the name of an attribute",))
        found = name_in(self.texts[self.at])
        self.at += 1
        return found

    def expression(self) -> Expression:
        """A value, an attribute, arithmetic, or a conversion."""
        word = self.texts[self.at]
        if word in CONVERSIONS and self.sign("(", 1):
            self.at += 2
            name = self.attribute()
            self.expect(")")
            return Converted(word, name)
        parser = self.filter_parser()
        start = self.starts[self.at]
        if parser.begins_sum():
            total = self._translated(parser.sum)
            self.go_on_behind(parser)
            return self.located(start, Computed.from_sum, total)
        value = self._translated(lambda: parser.value(("a value", "an attribute", "arithmetic")))
        self.go_on_behind(parser)
        return Constant(value)

    # -- policies ------------------------------------------------------------------------------------------------

    def policy(self) -> tuple[Direction, Policy]:
        direction = _POLICIES[self.word()]
        self.at += 1
        self.demand("POLICY")
        choice = self.choice()
        when = self.in_parentheses() if self.took("WHEN") else EVERYTHING
        return direction, Policy(choice, when)

    def choice(self) -> Choice:
        word = self.word()
        read: Mapping[str, Callable[[], Choice]] = {
            "ALL": All,
            "NONE": Nobody,
            "TO": lambda: To(tuple(self.several(self.symbol))),
            "ONE": self.one,
            "TOP": lambda: Top(*self.ranking()),
            "CHAIN": lambda: Chain(tuple(self.listed("(", ")", self.symbol))),
            "RATE": self.rate,
            "DELAY": lambda: Delay(self.duration()),
            "HOLD": self.hold,
        }
        if word not in read:
            if reference := self.code():
                return Own(reference)
            raise self.unexpected((*read, "package.module:function"))
        self.at += 1
        return read[word]()

    def one(self) -> Choice:
        if not self.took("BY"):
            return One()
        if self.took("TURN"):
            return One(in_turn=True)
        self.demand("HASH")
        return One()

    def rate(self) -> Choice:
        limit = self.whole("how many")
        self.demand("PER")
        return Rate(limit, self.duration())

    def hold(self) -> Choice:
        self.demand("UNTIL")
        until = self.in_parentheses()
        discard: Filter = NOTHING
        if self.took("DISCARD"):
            self.demand("ON")
            discard = self.in_parentheses()
        return Hold(until, discard)

    def traverse(self) -> Traverse:
        for words in (("BROADCAST",), ("TOP", "DOWN"), ("BOTTOM", "UP")):
            if self.took(*words):
                return Traverse(" ".join(words).lower())
        raise self.unexpected(("BROADCAST", "TOP DOWN", "BOTTOM UP"))

    # -- rules ---------------------------------------------------------------------------------------------------

    def rule(self) -> Rule:
        self.demand("UPDATE", "ON")
        event = self.event()
        condition = self.condition() if self.took("IF") else EVERYTHING
        self.demand("DO")
        return Rule(event, tuple(self.several(self.action)), condition)

    def event(self) -> Event:
        kind = self.word().lower()
        if kind not in (*_NOTIFICATION_EVENTS, *_FILTER_EVENTS, *_MEMBERSHIP_EVENTS):
            raise self.unexpected((*_NOTIFICATION_EVENTS, *_FILTER_EVENTS, *_MEMBERSHIP_EVENTS))
        self.at += 1
        self.expect("(")
        if kind in _MEMBERSHIP_EVENTS:
            component = self.name_or_star()
            self.expect(",")
            event = Event(kind, component=component, scope=self.name_or_star())
        elif kind in _NOTIFICATION_EVENTS:
            ident = self.symbol("a name for the notification")
            self.expect(":")
            event = Event(kind, self.items(), ident)
        else:
            event = Event(kind, self.items())
        self.expect(")", ",")
        return event

    def name_or_star(self) -> str:
        if self.sign("*"):
            self.at += 1
            return "*"
        return self.symbol()

    def action(self) -> Action:
        if self.took("CREATE"):
            self.demand("NOW")
            if not self.took("INCLUDE"):
                return Create()
            self.demand("COMPONENT")
            named = (
                self.kinds[self.at] == NAME and self.word() not in ("SINCE", *STATEMENTS) and not self.ends()
            )
            return Create(include=True, ident=self.symbol() if named else None)
        read: Mapping[str, Callable[[], Action]] = {
            "ALTER": lambda: self.alter(in_rule=True),
            "JOIN": self.join,
            "LEAVE": self.leave,
        }
        word = self.word()
        if word not in read:
            raise self.unexpected(("CREATE NOW", *read))
        self.at += 1
        return read[word]()

    def ends(self) -> bool:
        """Whether a clause begins here, or a statement."""
        is_clause = self.word() in (
            *_SELECTION,
            *_POLICIES,
            "INTERFACES",
            "IMPOSE",
            "ROLES",
            "SET",
            "MAP",
            "TRAVERSE",
            "UPDATE",
            "ADMIT",
        )
        return is_clause or self.sign(":", 1) or self.architecture_here()

    def architecture_here(self) -> bool:
        return self.word() in ("COLLAPSED", "ADDRESSES", "HUB", "BROKERSCOPE", "INTEGRATED")
