"""MATCH_RECOGNIZE of SQL:2016, as Flink, Oracle, Trino and Snowflake have it: a regular expression of rows.

    SELECT * FROM Quote MATCH_RECOGNIZE (
      PARTITION BY symbol ORDER BY time
      MEASURES A.price AS low, LAST(B.price) AS high
      AFTER MATCH SKIP PAST LAST ROW
      PATTERN (A B+ C) WITHIN INTERVAL '10' MINUTE
      DEFINE A AS price < 10, B AS price >= 20 AND B.price > A.price, C AS price BETWEEN 10 AND 15)

The rows are the events of the type that FROM names, or all events. The next row of a partition is the next event
of its key, so each step is `among` the rows. PARTITION BY is `same`, AFTER MATCH SKIP PAST LAST ROW is `past the
last`, SKIP TO NEXT ROW `one for each start`, SKIP TO FIRST B `from the first B`, PERMUTE a `permutation`. WITHIN,
which is Flink's, leaves its end out.

SQL takes the match that starts first, and of those the one with the longest repetitions; ours is the one that
ends first. They are the same where (a) each variable occurs once in the pattern, (b) no row is of two variables,
but for variables that only begin a match, as the algebra of filters shows, and (c) nothing can follow a last row
of the pattern. Then a row says which variable it is, and where one match completes, all under way do, or end.
They are also the same where no row is of two variables and all matches have as many rows, as with PERMUTE.
A variable that is repeated without bound at the end, `A B+`, is repeated greedily up to a row behind it, or up to
the end of the stream; that row is left out, and the next match may start with it. `A*` alone, and `A?`, have an
empty match at each row that is no A: a composite without constituents, in the place of that row.
What is not so is refused, by name, as are NEXT, arithmetic, SUM and AVG, whose rounding differs, exclusions, other
patterns that may be empty, SUBSET and ALL ROWS PER MATCH. SQL has an error where it skips to a row that is none
or the first one: that is refused.

PREV is `prev`, of the rows of a partition. ^ is a first step that `is first`. $ is `then no` row until the end of
time, which comes when the stream is closed; before it, (c) holds whatever the pattern ends with.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any, Final, NamedTuple

from fairlead.correlation.patterns.model import (
    BACK_MAX,
    Aggregate,
    Atom,
    Condition,
    Either,
    Iterate,
    Operand,
    Output,
    Part,
    Pattern,
    Permutation,
    Reference,
    Resume,
    Sequence,
    Take,
    Timing,
    Within,
    atoms,
    beginnings,
    can_be_empty,
    first_of,
)
from fairlead.correlation.patterns.spelling import THE_END, negation
from fairlead.dialects import sql
from fairlead.dialects.dialect import translating
from fairlead.dialects.expressions import Binary, Call, Literal, Name, Node, names_in
from fairlead.dialects.expressions import read as read_expression
from fairlead.dialects.patterns.expressions import (
    Positions,
    has_one_length,
    inside,
    is_before,
    is_sure,
    positions_of,
    repeated_last,
    with_atoms,
    with_last,
)
from fairlead.errors import FairleadError, TranslationRefused
from fairlead.filters import EVERYTHING, And, Attribute, Constraint, Filter, Op, overlaps

__all__ = ["read"]

_TOKEN: Final = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/
      | (?P<text>'(?:''|[^'])*') | (?P<number>\d+(?:\.\d+)?)
      | (?P<name>[^\W\d]\w*|`(?:``|[^`])+`|"(?:""|[^"])+") | (?P<sign><=|>=|<>|!=|\{-|-\}|.)""",
    re.VERBOSE | re.DOTALL,
)
_CLAUSES: Final = (
    ("PARTITION", "BY"),
    ("ORDER", "BY"),
    ("MEASURES",),
    ("ONE", "ROW", "PER", "MATCH"),
    ("ALL", "ROWS", "PER", "MATCH"),
    ("AFTER", "MATCH"),
    ("PATTERN",),
    ("WITHIN",),
    ("SUBSET",),
    ("DEFINE",),
)
_BEHIND: Final = "behind"
"""The row behind a repetition at the end."""
_EMPTY: Final = "nothing"
"""The row at which there is an empty match."""
_UNITS: Final = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400}
_AGGREGATES: Final = {
    "FIRST": Aggregate.FIRST,
    "LAST": Aggregate.LAST,
    "MIN": Aggregate.MIN,
    "MAX": Aggregate.MAX,
}
_COMPARISONS: Final = {
    "=": Op.EQ,
    "<>": Op.NE,
    "!=": Op.NE,
    "<": Op.LT,
    "<=": Op.LE,
    ">": Op.GT,
    ">=": Op.GE,
}


class _Token(NamedTuple):
    """A token and its place in the text."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The token as a word of SQL, or as a sign."""
        return self.text.upper() if self.kind == "name" else self.text

    @property
    def name(self) -> str:
        """The token as the name of a column or variable."""
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote) if quote in '`"' else self.text


def read(text: str) -> Pattern:
    """The pattern of a query, or of a MATCH_RECOGNIZE alone."""
    with translating("the query"):
        return _Query(text).pattern()


class _Query:
    """The clauses of a query, by their tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*_tokens(text)]
        self._rows: Filter = EVERYTHING
        self._clauses = self._split()

    def _refused(self, at: int, problem: str, hint: str | None = None) -> TranslationRefused:
        return TranslationRefused.at(self._text, at, problem, hint=hint)

    # -- clauses ---------------------------------------------------------------------------------------------

    def _split(self) -> dict[str, list[_Token]]:
        """The tokens of each clause between the parentheses."""
        words = [each.word for each in self._tokens]
        if "MATCH_RECOGNIZE" not in words:
            raise self._refused(0, "there is no MATCH_RECOGNIZE")
        at = words.index("MATCH_RECOGNIZE")
        self._read_from(self._tokens[:at])
        inner = self._enclosed(at + 1)
        found: dict[str, list[_Token]] = {}
        clause, depth, number = "", 0, 0
        while number < len(inner):
            token = inner[number]
            depth += {"(": 1, ")": -1}.get(token.word, 0)
            opened = (
                next((each for each in _CLAUSES if self._begins(inner, number, each)), None)
                if depth == 0
                else None
            )
            if opened is None:
                if not clause:
                    raise self._refused(token.at, f"unexpected {token.text}")
                found[clause].append(token)
                number += 1
                continue
            clause = " ".join(opened)
            if clause in found:
                raise self._refused(token.at, f"{clause} is given twice")
            found[clause] = []
            number += len(opened)
        for refused in ("ALL ROWS PER MATCH", "SUBSET"):
            if refused in found:
                place = next(each.at for each in inner if each.word == refused.split()[0])
                raise self._refused(
                    place, f"{refused} is not read: a composite is one row, of plain variables"
                )
        return found

    @staticmethod
    def _begins(tokens: list[_Token], at: int, words: tuple[str, ...]) -> bool:
        return tuple(each.word for each in tokens[at : at + len(words)]) == words

    def _read_from(self, before: list[_Token]) -> None:
        """The part before MATCH_RECOGNIZE: nothing, or SELECT … FROM a type."""
        words = [each.word for each in before]
        if not words:
            return
        if words[0] != "SELECT" or "FROM" not in words or words.index("FROM") != len(words) - 2:
            raise self._refused(before[0].at, "SELECT … FROM one type of events was expected before it")
        type = before[-1].name
        self._rows = Constraint(Attribute("type"), Op.EQ, type)

    def _enclosed(self, at: int) -> list[_Token]:
        """The tokens between the parenthesis at a place and the one that closes it; little may come behind."""
        tokens, depth = self._tokens, 0
        for end in range(at, len(tokens)):
            depth += {"(": 1, ")": -1}.get(tokens[end].word, 0)
            if depth == 0:
                break
        else:
            raise self._refused(len(self._text), "a parenthesis is missing")
        behind = [each for each in tokens[end + 1 :] if each.word not in ("AS", ";")]
        if len(behind) > 1 or (behind and behind[0].kind != "name"):
            raise self._refused(
                behind[0].at, "nothing is read behind MATCH_RECOGNIZE: rows are selected as they are"
            )
        return tokens[at + 1 : end]

    def _listed(self, clause: str) -> Iterator[list[_Token]]:
        """The parts of a clause, between its commas."""
        part: list[_Token] = []
        depth = 0
        for token in self._clauses.get(clause, []):
            depth += {"(": 1, ")": -1}.get(token.word, 0)
            if token.word == "," and depth == 0:
                yield part
                part = []
            else:
                part.append(token)
        if part:
            yield part

    # -- the whole -------------------------------------------------------------------------------------------

    def pattern(self) -> Pattern:
        """The pattern of all clauses."""
        if "PATTERN" not in self._clauses or "DEFINE" not in self._clauses:
            raise self._refused(0, "PATTERN and DEFINE are missing, or one of them")
        self._check_order()
        anchored = _Body(self, self._clauses["PATTERN"])
        body = anchored.part()
        is_optional = can_be_empty(body)
        if is_optional:
            body = self._not_empty(body, anchored)
        names = [atom.step for atom in atoms(body)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise self._refused(
                self._clauses["PATTERN"][0].at,
                f"the variable {twice[0]} occurs more than once in the pattern",
            )
        filters, conditions = self._defined(body, names)
        body = with_atoms(body, lambda atom: replace(atom, filter=filters[atom.step], domain=self._rows))
        last = self._check_same_meaning(body, filters, conditions, at_end=anchored.at_end)
        if anchored.at_start:
            conditions += self._first(body)
        outputs = tuple(self._measured(names))
        same = tuple(self._column(part) for part in self._listed("PARTITION BY"))
        window = self._window()
        whole = body if window is None else Within(body, window)
        if anchored.at_end:
            whole = _until_the_end(whole, self._rows)
        take, resume = self._skipping(body)
        hidden: list[str] = []
        if anchored.is_reluctant and (is_optional or last is not None):
            place = self._clauses["PATTERN"][0].at
            raise self._refused(place, "a reluctant repetition at the end: SQL takes no row of it")
        if is_optional and any(each.operand.reference.attribute is None for each in outputs):
            raise self._refused(self._clauses["MEASURES"][0].at, "COUNT of what may have no row")
        if last is not None:
            whole = _up_to_a_row(body, self._rows)
            hidden.append(_BEHIND)
            if take is Take.PAST and resume is None:
                resume = Resume(_BEHIND)
        if is_optional:
            whole = self._or_empty(whole, filters[names[0]], conditions)
            hidden.append(_EMPTY)
        for name in hidden:
            if name in names:
                raise self._refused(self._clauses["PATTERN"][0].at, f"a variable is called {name}")
        return Pattern(whole, same, tuple(conditions), outputs, take, resume=resume, left_out=tuple(hidden))

    def _not_empty(self, body: Part, anchored: _Body) -> Part:
        """The pattern without its empty matches: of one variable, which may have no row."""
        match body:
            case Iterate(Atom() as atom, 0, 1) if not anchored.at_start and not anchored.at_end:
                return atom
            case Iterate(Atom(), 0, None) if not anchored.at_start and not anchored.at_end:
                return replace(body, least=1)
        raise self._refused(
            self._clauses["PATTERN"][0].at,
            "the pattern may match without a row",
            hint="of one variable, A* and A? are read",
        )

    def _or_empty(self, body: Part, filter: Filter, conditions: Iterable[Condition]) -> Part:
        """The pattern of one variable, or an empty match at a row that is none of it."""
        if [*conditions]:
            problem = "the pattern may match without a row, where rows are compared"
            raise self._refused(self._clauses["PATTERN"][0].at, problem)
        none = Atom(_EMPTY, negation(filter, self._rows), frozenset(), self._rows)
        return Either((body, none))

    def _first(self, body: Part) -> Iterator[Condition]:
        """The conditions of ^: a first row has no row before it."""
        following = frozenset().union(*positions_of(body).follow.values())
        for atom in beginnings(body):
            if atom.step in following:
                place = self._clauses["PATTERN"][0].at
                problem = f"{atom.step} may be the first row and a later one"
                raise self._refused(place, problem, hint="write ^ A B* for ^ A+, with B defined as A is")
            yield first_of(atom.step)

    def _column(self, part: list[_Token]) -> str:
        if (
            not part
            or part[0].kind != "name"
            or any(each.word not in (".",) and each.kind != "name" for each in part)
        ):
            raise self._refused(part[0].at if part else 0, "the name of a column was expected")
        return ".".join(each.name for each in part if each.kind == "name")

    def _check_order(self) -> None:
        parts = [*self._listed("ORDER BY")]
        if not parts:
            raise self._refused(
                0, "ORDER BY is missing: rows are in the order of their times", hint="ORDER BY time"
            )
        for part in parts:
            words = [each.word for each in part if each.word != "ASC"]
            if words != ["TIME"]:
                raise self._refused(part[0].at, "rows are in the order of their times", hint="ORDER BY time")

    def _skipping(self, body: Part) -> tuple[Take, Resume | None]:
        """The selection of matches, and the step from which the next one may start."""
        tokens = self._clauses.get("AFTER MATCH")
        if tokens is None:
            return Take.PAST, None
        words = [each.word for each in tokens]
        match words:
            case ["SKIP", "PAST", "LAST", "ROW"]:
                return Take.PAST, None
            case ["SKIP", "TO", "NEXT", "ROW"]:
                return Take.NEXT, None
            case ["SKIP", "TO", "FIRST" | "LAST" as place, variable] | ["SKIP", "TO" as place, variable]:
                is_last = place != "FIRST"
                if variable not in {atom.step for atom in atoms(body)}:
                    raise self._refused(tokens[-1].at, f"{variable} does not occur in the pattern")
                begins = any(atom.step == variable for atom in beginnings(body))
                if begins or not is_sure(body, variable):
                    problem = f"SQL fails where {variable} is the first row, or has none"
                    raise self._refused(tokens[-1].at, problem)
                return Take.PAST, Resume(variable, is_last)
        raise self._refused(tokens[0].at if tokens else 0, f"AFTER MATCH {' '.join(words)} is not read")

    def _window(self) -> int | None:
        """The longest time from the first to the last row, in microseconds: less than what WITHIN says."""
        tokens = self._clauses.get("WITHIN")
        if tokens is None:
            return None
        words = [each.word for each in tokens]
        amount = tokens[1].text.strip("'") if len(tokens) == 3 else ""
        if len(words) != 3 or words[0] != "INTERVAL" or not amount.isdecimal() or words[2] not in _UNITS:
            at = tokens[0].at if tokens else 0
            raise self._refused(at, "an interval was expected", hint="WITHIN INTERVAL '10' MINUTE")
        length = int(amount) * _UNITS[words[2]] * 1_000_000 - 1
        if length < 1:
            raise self._refused(tokens[0].at, "an interval of some length was expected")
        return length

    # -- DEFINE ----------------------------------------------------------------------------------------------

    def _defined(self, body: Part, names: list[str]) -> tuple[dict[str, Filter], list[Condition]]:
        """The filters of variables, and the conditions between them."""
        filters: dict[str, Filter] = dict.fromkeys(names, self._rows)
        conditions: list[Condition] = []
        defined = set()
        for part in self._listed("DEFINE"):
            if len(part) < 3 or part[0].kind != "name" or part[1].word != "AS":
                raise self._refused(part[0].at, "a definition such as A AS price > 10 was expected")
            variable = part[0].word
            if variable in defined:
                raise self._refused(part[0].at, f"{variable} is defined twice")
            if variable not in names:
                raise self._refused(part[0].at, f"{variable} does not occur in the pattern")
            defined.add(variable)
            start, end = part[2].at, part[-1].at + len(part[-1].text)
            shown = " " * start + self._text[start:end]
            for node in _conjuncts(read_expression(shown, sql.GRAMMAR)):
                others = {name.partition(".")[0].upper() for name in _qualified(node)} & {*names}
                if others - {variable} or _calls(node):
                    conditions.append(self._condition(node, shown, variable, body, names))
                else:
                    filters[variable] = And.of((filters[variable], self._own(node, shown, variable)))
        return filters, conditions

    def _own(self, node: Node, text: str, variable: str) -> Filter:
        """A condition on the row itself, whose columns may be qualified with its variable."""
        shown = text[: node.end]
        plain = re.sub(rf"(?i)\b{re.escape(variable)}\.(?=[^\W\d]|`)", "", shown[node.start :])
        return sql.read(" " * node.start + plain)

    def _condition(self, node: Node, text: str, variable: str, body: Part, names: list[str]) -> Condition:
        """A comparison of the row with rows of variables before it."""
        if not isinstance(node, Binary) or node.sign not in _COMPARISONS:
            raise self._refused(node.start, "rows of two variables are compared, and joined by AND")
        op = _COMPARISONS[node.sign]
        left, right = (self._operand(each, variable, names) for each in (node.left, node.right))
        sides = [each for each in (left, right) if isinstance(each, Operand)]
        for each in sides:
            step = each.reference.step
            if step == variable and each.reference.aggregate is not None:
                raise self._refused(
                    node.start, f"{variable} is being defined: an aggregate of its rows is not read"
                )
            if step != variable and not is_before(body, step, variable):
                raise self._refused(node.start, f"{step} may have no row when {variable} is defined")
        if not any(each.reference.step == variable for each in sides):
            raise self._refused(node.start, f"the row of {variable} has to be one side of the comparison")
        if not isinstance(left, Operand):
            left, right, op = right, left, _FLIPPED[op]
        assert isinstance(left, Operand)
        return Condition(left, op, right)

    def _operand(self, node: Node, variable: str, names: list[str]) -> Operand | Any:
        match node:
            case Literal(value=value) if value is not None:
                return value
            case Name(name=name):
                return Operand(self._reference(node, name, variable, names, None))
            case Call() if node.name.upper() == "PREV":
                return Operand(self._preceding(node, variable, names))
            case Call() if node.name.upper() in _AGGREGATES and len(node.arguments) == 1:
                argument = node.arguments[0]
                if isinstance(argument, Name):
                    aggregate = _AGGREGATES[node.name.upper()]
                    return Operand(self._reference(argument, argument.name, variable, names, aggregate))
        what = f"{node.name.upper()} is" if isinstance(node, Call) else "arithmetic and expressions are"
        raise self._refused(
            node.start, f"{what} not read here: columns and PREV, FIRST, LAST, MIN and MAX of them are"
        )

    def _preceding(self, node: Call, variable: str, names: list[str]) -> Reference:
        """The reference of PREV(column), PREV(column, 2)."""
        match node.arguments:
            case [Name() as column]:
                back = 1
            case [Name() as column, Literal(value=int(back))] if 1 <= back <= BACK_MAX:
                pass
            case _:
                problem = "PREV has a column and, if it is not 1, a number of rows"
                raise self._refused(node.start, problem, hint=f"PREV(price, 2), with at most {BACK_MAX}")
        return replace(self._reference(column, column.name, variable, names, None), back=back)

    def _reference(
        self, node: Node, name: str, variable: str, names: list[str], aggregate: Aggregate | None
    ) -> Reference:
        first, _, rest = name.partition(".")
        if first.upper() in names and rest:
            return Reference(first.upper(), rest, aggregate)
        if aggregate is not None or not variable:
            raise self._refused(node.start, f"{name} needs the variable whose rows are meant")
        return Reference(variable, name)

    # -- MEASURES --------------------------------------------------------------------------------------------

    def _measured(self, names: list[str]) -> Iterator[Output]:
        for part in self._listed("MEASURES"):
            if len(part) < 3 or part[-2].word != "AS" or part[-1].kind != "name":
                raise self._refused(part[0].at, "a measure such as LAST(A.price) AS price was expected")
            start, end = part[0].at, part[-2].at
            given = self._text[start:end]
            counted = re.fullmatch(r"(?is)\s*COUNT\s*\(\s*(\w+)\s*\.\s*\*\s*\)\s*", given)
            if counted and counted[1].upper() in names:
                yield Output(part[-1].name, Operand(Reference(counted[1].upper(), None, Aggregate.COUNT)))
                continue
            shown = " " * start + re.sub(r"(?i)^\s*FINAL\b", lambda found: " " * len(found[0]), given)
            operand = self._operand(read_expression(shown, sql.GRAMMAR), "", names)
            if not isinstance(operand, Operand):
                raise self._refused(start, "a measure is a column of a variable")
            yield Output(part[-1].name, operand)

    # -- the same meaning ------------------------------------------------------------------------------------

    def _check_same_meaning(
        self, body: Part, filters: Mapping[str, Filter], conditions: Iterable[Condition], *, at_end: bool
    ) -> str | None:
        """TranslationRefused where SQL's choice of matches may differ from ours.

        Else the variable that is repeated at the end as often as can be, if there is one.
        """
        at = self._clauses["PATTERN"][0].at
        positions = positions_of(body)
        if has_one_length(body):  # the match that starts first ends first, too
            positions = Positions(
                positions.first, frozenset(), False, dict.fromkeys(filters, frozenset(filters))
            )
        elif any(isinstance(each, Permutation) for each in inside(body)):
            raise self._refused(at, "PERMUTE is read where all matches have as many rows")
        following = frozenset().union(*positions.follow.values()) if positions.follow else frozenset()
        going_on = {name: positions.follow[name] for name in positions.last if positions.follow.get(name)}
        last = repeated_last(body) if going_on and not at_end else None
        if going_on and not at_end:
            if any(after != {last} for after in going_on.values()):
                raise self._refused(
                    at,
                    "a repetition at the end: SQL takes as many rows as there are, a pattern ends with "
                    f"{min(going_on)}",
                    hint="one variable may be repeated without bound; or add one for the row behind it, or $",
                )
            if "WITHIN" in self._clauses:
                raise self._refused(
                    at, "a repetition at the end, and WITHIN", hint="add a variable behind it"
                )
        own = _own_conditions(conditions)
        names = sorted(filters)
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                begins = {one, other} - following
                excluded = any(_exclude(*each) for each in product(own[one], own[other]))
                if not begins and not excluded and overlaps(filters[one], filters[other]):
                    raise self._refused(
                        at,
                        f"a row may be {one} and {other}: SQL takes long repetitions, a pattern ends early",
                        hint=f"let the definitions of {one} and {other} exclude each other",
                    )
        return last


_FLIPPED: Final = {
    Op.EQ: Op.EQ,
    Op.NE: Op.NE,
    Op.LT: Op.GT,
    Op.LE: Op.GE,
    Op.GT: Op.LT,
    Op.GE: Op.LE,
}
_MEETING: Final = {
    frozenset(pair)
    for pair in product(_FLIPPED, repeat=2)
    if frozenset(pair)
    not in map(
        frozenset,
        (
            (Op.LT, Op.GT),
            (Op.LT, Op.GE),
            (Op.LT, Op.EQ),
            (Op.GT, Op.LE),
            (Op.GT, Op.EQ),
            (Op.EQ, Op.NE),
        ),
    )
}
"""The comparisons that may both hold of the same two values."""


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found.lastgroup is not None:
            yield _Token(found.lastgroup, found[0], found.start())


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Binary) and node.sign.upper() == "AND":
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _qualified(node: Node) -> Iterator[str]:
    return (each.name for each in names_in(node) if "." in each.name)


def _calls(node: Node) -> bool:
    """Whether a comparison has a call on one of its sides."""
    return isinstance(node, Binary) and any(isinstance(each, Call) for each in (node.left, node.right))


# -- PATTERN -------------------------------------------------------------------------------------------------


class _Body:
    """The regular expression of a pattern."""

    def __init__(self, query: _Query, tokens: list[_Token]) -> None:
        self._query, self._tokens, self._at = query, list(tokens), 0

        self.at_start = self.at_end = False
        """Whether it is anchored: with ^ at the start of a partition, with $ at its end."""
        self.is_reluctant = False
        """Whether something is repeated as seldom as can be."""

    def part(self) -> Part:
        """The whole of it, which is in parentheses."""
        if not self._tokens or self._next != "(":
            raise self._error("a pattern in parentheses was expected")
        words = [each.word for each in self._tokens]
        if words[1:2] == ["^"]:
            self.at_start = True
            del self._tokens[1]
        if words[-2:] == ["$", ")"]:
            self.at_end = True
            del self._tokens[-2]
        found = self._primary()
        if self._at < len(self._tokens):
            raise self._error("unexpected")
        return found

    @property
    def _next(self) -> str:
        return self._tokens[self._at].word if self._at < len(self._tokens) else ""

    def _error(self, problem: str) -> TranslationRefused:
        token = self._tokens[min(self._at, len(self._tokens) - 1)] if self._tokens else _Token("", "", 0)
        return self._query._refused(token.at, f"{problem}: {token.text}")

    def _either(self) -> Part:
        parts = [self._chain()]
        while self._next == "|":
            self._at += 1
            parts.append(self._chain())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _chain(self) -> Part:
        parts: list[Part] = []
        while self._next not in ("", ")", "|", ","):
            parts.append(self._quantified())
        if not parts:
            raise self._error("an empty pattern is not read")
        return reduce(Sequence, parts)

    def _quantified(self) -> Part:
        part = self._primary()
        bounds = self._bounds()
        if bounds is None:
            return part
        if self._next == "?":
            self._at += 1  # where the meaning is the same, there is nothing to choose
            self.is_reluctant = True
        least, most = bounds
        if most == 0 or (most is not None and most < least):
            raise self._error("a repetition of no row")
        try:
            return Iterate(part, least, most)
        except FairleadError as error:
            raise self._query._refused(self._tokens[self._at - 1].at, str(error)) from None

    def _permuted(self) -> Part:
        """PERMUTE(A, B, …)."""
        parts: list[Part] = []
        while self._next in ("PERMUTE", ",") and (not parts or self._next == ","):
            self._at += 1
            if not parts:
                if self._next != "(":
                    raise self._error("a parenthesis is missing")
                self._at += 1
            parts.append(self._chain())
        if self._next != ")":
            raise self._error("a parenthesis is missing")
        self._at += 1
        try:
            return Permutation(tuple(parts))
        except FairleadError as error:
            raise self._query._refused(self._tokens[self._at - 1].at, str(error)) from None

    def _bounds(self) -> tuple[int, int | None] | None:
        """The quantifier behind a part: from how often to how often."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._next in simple:
            self._at += 1
            return simple[self._tokens[self._at - 1].word]
        if self._next != "{":
            return None
        end = next((at for at in range(self._at, len(self._tokens)) if self._tokens[at].word == "}"), None)
        if end is None:
            raise self._error("a brace is missing")
        inner = [each.word for each in self._tokens[self._at + 1 : end]]
        before, comma, behind = "".join(inner).partition(",")
        if not all(each.isdecimal() or each == "" for each in (before, behind)) or not (before or behind):
            raise self._error("a repetition such as {2,3} was expected")
        self._at = end + 1
        least = int(before or 0)
        return (least, least) if not comma else (least, int(behind) if behind else None)

    def _primary(self) -> Part:
        word = self._next
        if word == "(":
            self._at += 1
            inner = self._either()
            if self._next != ")":
                raise self._error("a parenthesis is missing")
            self._at += 1
            return inner
        if word == "PERMUTE":
            return self._permuted()
        if word in ("^", "$"):
            raise self._error("an anchor stands first or last in a pattern")
        if word in ("{-", "-}"):
            raise self._error("an exclusion is not read")
        if not word or self._tokens[self._at].kind != "name":
            raise self._error("a variable was expected")
        self._at += 1
        return Atom(word, EVERYTHING)


def _until_the_end(body: Part, rows: Filter) -> Part:
    """The pattern, and no row behind it."""
    end = Atom("no_row", None, frozenset({"end"}), rows)
    return Timing(body, end, "end", THE_END)


def _up_to_a_row(body: Part, rows: Filter) -> Part:
    """The pattern whose last variable is repeated as often as can be, with the row behind it, or the end."""
    behind = Atom(_BEHIND, rows, frozenset({"end"}), rows)
    return Timing(with_last(body, _greedy), behind, "end", THE_END)


def _greedy(last: Iterate) -> Iterate:
    return replace(last, greedy=True)


def _own_conditions(conditions: Iterable[Condition]) -> Mapping[str, list[Condition]]:
    """By variables: the conditions on a row and on those before it, which decide without other variables."""
    found: dict[str, list[Condition]] = defaultdict(list)
    for each in conditions:
        if len(each.steps) == 1 and all(reference.aggregate is None for reference in each.references):
            found[next(iter(each.steps))].append(each)
    return found


def _exclude(one: Condition, other: Condition) -> bool:
    """Whether conditions of two variables on their own rows cannot both hold of one row."""
    mine, others = _compared(one), _compared(other)
    if mine[0] == others[0] and mine[2] == others[2]:
        return frozenset((mine[1], others[1])) not in _MEETING
    if mine[0] == others[2] and mine[2] == others[0]:
        return frozenset((mine[1], _FLIPPED[others[1]])) not in _MEETING
    return False


def _compared(condition: Condition) -> tuple[Any, Op, Any]:
    """The sides of a condition on one row, whatever the name of its variable."""

    def side(given: Any) -> Any:
        if not isinstance(given, Operand):
            return given
        return replace(given, reference=replace(given.reference, step="row"))

    return side(condition.left), condition.op, side(condition.key)
