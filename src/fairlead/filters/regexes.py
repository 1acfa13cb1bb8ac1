r"""Regular expressions, read into automata and written from them.

Laws: a text that is read has one meaning, that of Python's `re.fullmatch` with `re.ASCII | re.DOTALL`; a text
that is written is read back as the same language. (With `(?i)`, `re.IGNORECASE` folds a few more letters: it takes
the Kelvin sign for a k, which is no upper case of it.) What has no automaton (backreferences, lookaround) or no
meaning for whole strings (anchors, lazy quantifiers) is refused by name, never taken for something else.

    alternatives   x|y                  the empty alternative is the empty string
    sequence       xy
    repetition     x* x+ x? x{m} x{m,} x{m,n}
    group          (x) (?:x)            no difference: nothing is captured
    any character  .                    the newline included: a string is matched as a whole, not by lines
    class          [a-z_] [^a-z] [\d.]
    shorthands     \d \w \s \D \W \S    ASCII: [0-9], [0-9A-Za-z_], [ \t\n\r\f\v], and their complements
    case           (?i)x                each letter of x stands for its lower and its upper case, too
    addresses      (?cidr)10.0.0.0/24   the texts of the IP addresses in a block; see `addresses`
    escapes        \n \t \r \f \v \xXX \uXXXX \UXXXXXXXX, and a backslash before any sign of punctuation

Expressions are held in postfix order (operands before their operator), so that reading, copying an operand
for `x{3}` and building the automaton are all loops over lists: no depth of nesting can exhaust the stack.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NoReturn

from fairlead.errors import FilterError, FilterSyntaxError, Undecided
from fairlead.filters.addresses import block_expression
from fairlead.filters.alphabets import TEXT
from fairlead.filters.automata import Automaton, NondeterministicAutomaton

__all__ = ["Either", "Join", "Op", "Repeat", "Symbols", "automaton_of", "compiled", "parse", "write"]

Runs = tuple[tuple[int, int], ...]
"""A set of symbols: sorted, disjoint ranges, both ends included."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """One letter out of a set."""

    runs: Runs


@dataclass(frozen=True, slots=True)
class Join:
    """The last `count` operands, one after the other; of none, the empty word."""

    count: int


@dataclass(frozen=True, slots=True)
class Either:
    """One of the last `count` operands."""

    count: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """The last operand `*`, `+` or `?` times."""

    sign: str


Op = Symbols | Join | Either | Repeat

IGNORING_CASE = "(?i)"
BLOCK = "(?cidr)"

_NESTING_MAX = 200
_OPERATIONS_MAX = 10_000
"""The most operations of an expression once its repetitions are written out."""

_SIZE_HINT = "smaller repetitions or a shorter expression will do"


# ------------------------------------------------------------------------------------------ sets of symbols


def _union(runs: Iterable[tuple[int, int]]) -> Runs:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def _complement(runs: Runs) -> Runs:
    gaps = []
    following = 0
    for first, last in runs:
        if following < first:
            gaps.append((following, first - 1))
        following = last + 1
    if following < TEXT.size:
        gaps.append((following, TEXT.size - 1))
    return tuple(gaps)


def _of(characters: str) -> Runs:
    return _union((symbol, symbol) for symbol in TEXT.encode(characters))


@cache
def _cases() -> tuple[tuple[int, int], ...]:
    """The symbols of letters, each with that of another case, in order; those of several letters are left out."""
    pairs: set[tuple[int, int]] = set()
    for letter in map(chr, (*range(0xD800), *range(0xE000, 0x1F000))):
        for other in (letter.lower(), letter.upper()):
            if other != letter and len(other) == 1:
                [symbol], [cased] = TEXT.encode(letter), TEXT.encode(other)
                pairs.add((symbol, cased))
    return tuple(sorted(pairs))


def _folded(runs: Runs) -> Runs:
    """The symbols together with those of the other case."""
    cases = _cases()
    others: list[tuple[int, int]] = []
    for first, last in runs:
        for _, other in cases[bisect_left(cases, (first,)) : bisect_left(cases, (last + 1,))]:
            others.append((other, other))
    return _union((*runs, *others))


_ANY: Runs = ((0, TEXT.size - 1),)
_SHORTHANDS: dict[str, Runs] = {
    "d": _of("0123456789"),
    "w": _of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"),
    "s": _of(" \t\n\r\f\v"),
}
_SHORTHANDS |= {name.upper(): _complement(runs) for name, runs in list(_SHORTHANDS.items())}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}
_METACHARACTERS = frozenset("\\.[](){}|*+?^$")

_REFUSED_ESCAPES = {
    **dict.fromkeys("bBAZzG", "an anchor"),
    **dict.fromkeys("123456789", "a backreference"),
    **dict.fromkeys("gk", "a backreference by name"),
    **dict.fromkeys("pP", "a Unicode property"),
    "0": "an octal escape",
    "N": "a character by name",
    "R": "a line break of any kind",
    "X": "a grapheme",
    "Q": "a quotation",
    "E": "a quotation",
}
_REFUSED_GROUPS = {
    "(?=": "a lookahead",
    "(?!": "a negative lookahead",
    "(?<=": "a lookbehind",
    "(?<!": "a negative lookbehind",
    "(?P=": "a backreference by name",
    "(?P<": "a named group",
    "(?<": "a named group",
    "(?#": "a comment",
    "(?>": "an atomic group",
    "(?(": "a conditional",
    "(?|": "a branch reset",
    "(?": "a group with flags",
}
_REFUSED_AFTER_A_QUANTIFIER = {
    "?": "a lazy quantifier",
    "+": "a possessive quantifier",
    "*": "a quantifier of a quantifier",
    "{": "a quantifier of a quantifier",
}
_REFUSED_ALONE = {
    "^": ("an anchor", "the whole string is always matched; for the sign itself write \\^"),
    "$": ("an anchor", "the whole string is always matched; for the sign itself write \\$"),
    "]": ("a bracket without its beginning", "for the sign itself write \\]"),
    "}": ("a brace without its beginning", "for the sign itself write \\}"),
    **dict.fromkeys("*+?{", ("a quantifier of nothing", "for the sign itself put a backslash before it")),
}


# -------------------------------------------------------------------------------------------------- reading


def parse(text: str) -> list[Op]:
    """The operations of a regular expression in postfix order."""
    if text.startswith(BLOCK):
        return _Reader(block_expression(text.removeprefix(BLOCK))).read()
    return _Reader(text).read()


@dataclass(slots=True)
class _Group:
    """A group that is not closed yet."""

    opened_at: int
    alternatives: list[list[Op]] = field(default_factory=list)
    items: list[list[Op]] = field(default_factory=list)
    """The items of the alternative that is being read, each in postfix order."""

    def end_alternative(self) -> None:
        self.alternatives.append(_operator(self.items, Join(len(self.items))))
        self.items = []

    def whole(self) -> list[Op]:
        self.end_alternative()
        return _operator(self.alternatives, Either(len(self.alternatives)))


def _operator(operands: Sequence[list[Op]], operator: Op) -> list[Op]:
    if len(operands) == 1:
        return operands[0]
    return [*(op for operand in operands for op in operand), operator]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = len(IGNORING_CASE) if text.startswith(IGNORING_CASE) else 0
        self.groups = [_Group(opened_at=0)]

    def read(self) -> list[Op]:
        if len(self.text) > _OPERATIONS_MAX:
            self.too_large(0)
        while self.at < len(self.text):
            match self.text[self.at]:
                case "(":
                    self.open_group()
                case ")":
                    self.close_group()
                case "|":
                    self.groups[-1].end_alternative()
                    self.at += 1
                case _:
                    self.item(self.symbols())
        if len(self.groups) > 1:
            self.refuse(self.groups[-1].opened_at, "the group that begins here does not end", expected=(")",))
        operations = self.groups[0].whole()
        if len(operations) > _OPERATIONS_MAX:
            self.too_large(0)
        return operations

    def refuse(
        self, at: int, problem: str, *, expected: tuple[str, ...] = (), hint: str | None = None
    ) -> NoReturn:
        raise FilterSyntaxError.at(
            self.text, at, f"in the regular expression, {problem}", expected=expected, hint=hint
        )

    def unsupported(self, at: int, what: str, hint: str | None = None) -> NoReturn:
        hint = hint or "only what an automaton can decide is supported: groups, classes, |, *, +, ?, {m,n}"
        self.refuse(at, f"{what} is not supported", hint=hint)

    def too_large(self, at: int) -> NoReturn:
        self.refuse(at, f"more than {_OPERATIONS_MAX} operations are too large", hint=_SIZE_HINT)

    def open_group(self) -> None:
        start = self.at
        if len(self.groups) > _NESTING_MAX:
            self.refuse(start, f"groups are nested deeper than {_NESTING_MAX}")
        if self.text.startswith("(?:", start):
            self.at += 3
        elif self.text.startswith(("(?", "(*"), start):
            found = next((sign for sign in _REFUSED_GROUPS if self.text.startswith(sign, start)), None)
            self.unsupported(start, _REFUSED_GROUPS[found] if found else "a control verb")
        else:
            self.at += 1
        self.groups.append(_Group(opened_at=start))

    def close_group(self) -> None:
        if len(self.groups) == 1:
            self.refuse(self.at, "a group ends that never began", hint="for the sign itself write \\)")
        self.at += 1
        self.item(self.groups.pop().whole())

    def item(self, operations: list[Op]) -> None:
        """Take in an item together with its quantifier."""
        start = self.at
        sign = self.text[start : start + 1]
        if sign and sign in "*+?":
            self.at += 1
            operations = [*operations, Repeat(sign)]
        elif sign == "{":
            operations = self.repeated(operations, *self.bounds())
        if self.at > start and (following := self.text[self.at : self.at + 1]) in _REFUSED_AFTER_A_QUANTIFIER:
            self.unsupported(self.at, _REFUSED_AFTER_A_QUANTIFIER[following], hint="group what is repeated")
        if len(operations) > _OPERATIONS_MAX:
            self.too_large(start)
        self.groups[-1].items.append(operations)

    def bounds(self) -> tuple[int, int, int | None]:
        """The quantifier `{m}`, `{m,}` or `{m,n}`: where it stands, m, and n or None."""
        start = self.at
        end = self.text.find("}", start)
        low, comma, high = self.text[start + 1 : end if end >= 0 else start + 1].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            self.refuse(
                start,
                "a brace begins no repetition",
                expected=("{m}", "{m,}", "{m,n}"),
                hint="for the sign itself write \\{",
            )
        if max(len(low), len(high)) > 6:
            self.too_large(start)
        least = int(low)
        most = int(high) if high else None if comma else least
        if most is not None and most < least:
            self.refuse(start, f"a repetition of at least {least} and at most {most} times is impossible")
        self.at = end + 1
        return start, least, most

    def repeated(self, operations: list[Op], at: int, least: int, most: int | None) -> list[Op]:
        copies = max(1, least) if most is None else most
        if copies * (len(operations) + 2) > _OPERATIONS_MAX:
            self.too_large(at)
        if most is None:
            if least == 0:
                return [*operations, Repeat("*")]
            return _operator([operations] * (least - 1) + [[*operations, Repeat("+")]], Join(least))
        # What may be missing is nested, (x(x(x)?)?)?: the sets of states stay small, unlike with x?x?x?.
        optional = most - least
        tail: list[Op] = operations * optional
        for n in range(optional):
            tail += [Join(2), Repeat("?")] if n else [Repeat("?")]
        items = [operations] * least + ([tail] if optional else [])
        return _operator(items, Join(len(items)))

    def symbols(self) -> list[Op]:
        """One letter: itself, an escape, a class or the dot."""
        start = self.at
        sign = self.text[start]
        if sign == "\\":
            return [Symbols(self.cased(self.escape()))]
        if sign == "[":
            return [Symbols(self.character_class())]
        if sign in _REFUSED_ALONE:
            what, hint = _REFUSED_ALONE[sign]
            self.unsupported(start, what, hint)
        self.at += 1
        return [Symbols(_ANY if sign == "." else self.cased(self.literal(sign, start)))]

    def cased(self, runs: Runs) -> Runs:
        """The symbols, with those of the other case where the expression ignores it."""
        return _folded(runs) if self.text.startswith(IGNORING_CASE) else runs

    def literal(self, character: str, at: int) -> Runs:
        if "\ud800" <= character <= "\udfff":
            self.refuse(at, f"U+{ord(character):04X} is a lone surrogate, not a character")
        return _of(character)

    def escape(self) -> Runs:
        start = self.at
        sign = self.text[start + 1 : start + 2]
        self.at += 2
        if sign in _HEXADECIMAL:
            return self.literal(self.hexadecimal(start, _HEXADECIMAL[sign]), start)
        if sign in _SHORTHANDS:
            return _SHORTHANDS[sign]
        if sign in _CONTROLS:
            return _of(_CONTROLS[sign])
        if sign in _REFUSED_ESCAPES:
            self.unsupported(start, f"{_REFUSED_ESCAPES[sign]} (\\{sign})")
        if not sign:
            self.refuse(start, "a backslash ends the expression", hint="for the sign itself write \\\\")
        if sign.isalnum() or not sign.isascii():
            self.unsupported(start, f"the escape \\{sign}")
        return _of(sign)

    def hexadecimal(self, start: int, digits: int) -> str:
        number = self.text[self.at : self.at + digits]
        valid = len(number) == digits and all(digit in "0123456789abcdefABCDEF" for digit in number)
        if not valid or int(number, 16) > 0x10FFFF:
            self.refuse(start, f"\\{self.text[start + 1]} needs {digits} hexadecimal digits of a code point")
        self.at += digits
        return chr(int(number, 16))

    def character_class(self) -> Runs:
        start = self.at
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        runs: list[tuple[int, int]] = []
        while True:
            if self.at >= len(self.text):
                self.refuse(start, "the class that begins here does not end", expected=("]",))
            if self.text[self.at] == "]":
                break
            runs += self.class_item()
        if not runs:
            self.refuse(start, "the class is empty", hint="to have ] in a class write \\]")
        self.at += 1
        union = self.cased(_union(runs))
        return _complement(union) if negated else union

    def class_item(self) -> Runs:
        """A character, a shorthand or a range."""
        start = self.at
        first = self.class_character()
        ranged = self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at)
        if not ranged or self.at + 1 >= len(self.text):
            return first
        self.at += 1
        last = self.class_character()
        ends = (*first, *last)
        if len(ends) != 2 or any(low != high for low, high in ends):
            self.refuse(
                start, "a range needs one character at each end", hint="to have - in a class write \\-"
            )
        if first > last:
            self.refuse(start, "a range ends before it begins")
        return ((first[0][0], last[0][0]),)

    def class_character(self) -> Runs:
        start = self.at
        sign = self.text[start]
        if sign == "\\":
            return self.escape()
        if sign == "[":
            self.unsupported(start, "a class within a class", hint="to have [ in a class write \\[")
        # Set operations elsewhere, and reserved in Python: two readers would differ.
        if sign in "&|~-" and self.text.startswith(sign * 2, start):
            self.unsupported(start, f"{sign * 2} in a class", hint=f"for the sign itself write \\{sign}")
        self.at += 1
        return self.literal(sign, start)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def automaton_of(operations: Iterable[Op]) -> Automaton[str]:
    """The automaton of an expression in postfix order (Thompson's construction, then determinisation)."""
    machine = NondeterministicAutomaton(TEXT)
    stack: list[tuple[int, int]] = []
    for operation in operations:
        initial, final = machine.state(), machine.state()
        match operation:
            case Symbols(runs):
                machine.edges[initial] += [(first, last, final) for first, last in runs]
            case Join(number):
                ends = initial
                for start, end in _take(stack, number):
                    machine.silent[ends].append(start)
                    ends = end
                machine.silent[ends].append(final)
            case Either(number):
                for start, end in _take(stack, number):
                    machine.silent[initial].append(start)
                    machine.silent[end].append(final)
            case Repeat(sign):
                start, end = stack.pop()
                machine.silent[initial] += [start] if sign == "+" else [start, final]
                machine.silent[end] += [final] if sign == "?" else [start, final]
        stack.append((initial, final))
    ((initial, final),) = stack
    return machine.deterministic(initial, final)


def _take(stack: list[tuple[int, int]], number: int) -> list[tuple[int, int]]:
    taken = stack[len(stack) - number :]
    del stack[len(stack) - number :]
    return taken


def compiled(text: str) -> Automaton[str]:
    """The automaton of a text; a text whose automaton is too large is refused."""
    try:
        return automaton_of(parse(text))
    except Undecided as cause:
        raise FilterError(
            f"the regular expression is too large: {str(cause).partition(chr(10))[0]}", hint=_SIZE_HINT
        ) from cause


# -------------------------------------------------------------------------------------------------- writing

_WRITTEN_MAX = 20_000
"""The most characters of an expression that is written."""

_STATES_WRITTEN_MAX = 1_000


@dataclass(frozen=True, slots=True)
class _Text:
    """A text and how tightly it binds: 0 alternatives, 1 a sequence, 2 a quantified item, 3 an item."""

    text: str
    binding: int

    def at_least(self, binding: int) -> str:
        return self.text if self.binding >= binding else f"({self.text})"


_EMPTY_WORD = _Text("", 1)


def write(automaton: Automaton[str]) -> str:
    """A regular expression for the automaton's language, by elimination of its states.

    Raises `Undecided` where it would be longer than anyone reads.
    """
    if automaton.is_empty():
        return "[^\\s\\S]"
    dead = automaton.sink(accepting=False)
    if len(automaton.rows) > _STATES_WRITTEN_MAX:
        raise Undecided(f"an automaton of {len(automaton.rows)} states has no expression that one could read")
    edges = _edges(automaton, dead)
    for state in range(len(automaton.rows)):
        if state in automaton.accepting:
            edges.connect(state, _END, _EMPTY_WORD)
    edges.connect(_START, 0, _EMPTY_WORD)
    waiting = set(range(len(automaton.rows))) - {dead}
    while waiting:
        state = min(waiting, key=lambda state: (edges.price(state), state))
        waiting.remove(state)
        edges.eliminate(state)
    return edges.following[_START][_END].text


_START, _END = -1, -2


class _Edges:
    """A graph whose edges are labelled with expressions."""

    def __init__(self) -> None:
        self.following: dict[int, dict[int, _Text]] = defaultdict(dict)
        self.preceding: dict[int, set[int]] = defaultdict(set)

    def connect(self, source: int, target: int, label: _Text) -> None:
        present = self.following[source].get(target)
        label = label if present is None else _either(present, label)
        if len(label.text) > _WRITTEN_MAX:
            raise Undecided(f"the regular expression would be longer than {_WRITTEN_MAX} characters")
        self.following[source][target] = label
        self.preceding[target].add(source)

    def price(self, state: int) -> int:
        """By how much the texts grow when the state goes: each way in is joined to each way out."""
        into = [self.following[p][state] for p in self.preceding[state] if p != state]
        out = [label for target, label in self.following[state].items() if target != state]
        loop = self.following[state].get(state)
        texts = len(into) * sum(len(label.text) + 1 for label in out)
        texts += len(out) * sum(len(label.text) + 1 for label in into)
        texts -= sum(len(label.text) + 1 for label in (*into, *out))
        return texts + (len(into) * len(out) * len(loop.text) if loop else 0)

    def eliminate(self, state: int) -> None:
        out = self.following.pop(state)
        loop = out.pop(state, None)
        sources = self.preceding.pop(state) - {state}
        for target in out:
            self.preceding[target].discard(state)
        for source in sources:
            into = self.following[source].pop(state)
            begin = into if loop is None else _then(into, _star(loop))
            for target, label in out.items():
                self.connect(source, target, _then(begin, label))


def _edges(automaton: Automaton[str], dead: int) -> _Edges:
    edges = _Edges()
    for state in range(len(automaton.rows)):
        if state == dead:
            continue
        runs: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for first, last, target in automaton.runs(state):
            runs[target].append((first, last))
        for target, symbols in runs.items():
            if target != dead:
                edges.connect(state, target, _Text(_written(_union(symbols)), 3))
    return edges


def _either(left: _Text, right: _Text) -> _Text:
    if left == right:
        return left
    for empty, other in ((left, right), (right, left)):
        if empty == _EMPTY_WORD:
            return _optional(other)
    return _Text(f"{left.text}|{right.text}", 0)


def _then(left: _Text, right: _Text) -> _Text:
    if left == _EMPTY_WORD:
        return right
    if right == _EMPTY_WORD:
        return left
    if right.text == f"{left.at_least(3)}*":
        return _Text(f"{left.at_least(3)}+", 2)
    return _Text(left.at_least(1) + right.at_least(1), 1)


def _star(item: _Text) -> _Text:
    if item == _EMPTY_WORD:
        return item
    if item.binding == 2:
        return _Text(f"{item.text[:-1]}*", 2)
    return _Text(f"{item.at_least(3)}*", 2)


def _optional(item: _Text) -> _Text:
    if item.binding == 2:
        return _Text(item.text[:-1] + ("*" if item.text[-1] in "*+" else "?"), 2)
    return _Text(f"{item.at_least(3)}?", 2)


def _written(runs: Runs) -> str:
    """A set of symbols: the dot, a character, or the shorter one of a class and its complement."""
    if runs == _ANY:
        return "."
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        return _character(runs[0][0], _METACHARACTERS)
    positive = "".join(map(_range, runs))
    negative = "".join(map(_range, _complement(runs)))
    return f"[{positive}]" if len(positive) <= len(negative) + 1 else f"[^{negative}]"


_CLASS_METACHARACTERS = frozenset("\\[]^-&|~")


def _range(run: tuple[int, int]) -> str:
    first, last = (_character(symbol, _CLASS_METACHARACTERS) for symbol in run)
    if run[0] == run[1]:
        return first
    return first + last if run[0] + 1 == run[1] else f"{first}-{last}"


def _character(symbol: int, escaped: frozenset[str]) -> str:
    character = TEXT.decode([symbol])
    if character in escaped:
        return f"\\{character}"
    if character.isprintable():
        return character
    for sign, control in _CONTROLS.items():
        if character == control:
            return f"\\{sign}"
    return f"\\u{ord(character):04X}" if ord(character) < 0x10000 else f"\\U{ord(character):08X}"
