"""Scores: how nearly a row matches each filter."""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import ANY, EQ, KIND, MEMBER, RANGE, SET, SUBSET, SYMBOL
from fairlead.matching.columnar.kernels.sections import AT, section
from fairlead.matching.columnar.kernels.verification import has_any, is_within
from fairlead.matching.columnar.layout import NEVER

__all__: list[str] = []

_HEAD, _ARGUMENT = AT["predicate_head"], AT["predicate_argument"]
_SET_START, _SET_SYMBOL = AT["set_start"], AT["set_symbol"]
_START, _LITERAL = AT["filter_start"], AT["filter_literal"]
_PROGRAM, _FLAGS = AT["filter_program"], AT["filter_flags"]


@kernel(counted=True)
def put_truths(directory, ints, low, high, states, coordinates, extras, elements, stamps, truths):
    """Whether each predicate holds for a row; `low` and `high` are the ranges, as coordinates."""
    heads = section(ints, directory, _HEAD)
    arguments = section(ints, directory, _ARGUMENT)
    set_start = section(ints, directory, _SET_START)
    set_symbol = section(ints, directory, _SET_SYMBOL)
    width = states.shape[1] // 2
    now = stamps[len(stamps) - 1]
    for predicate in range(len(heads)):
        head, argument = heads[predicate], arguments[predicate]
        sort, column = head & 7, head >> 10
        rank, symbol = states[0, column], states[0, width + column]
        truth = False
        if sort == RANGE:
            truth = rank == (head >> 3) & 31 and low[argument] <= coordinates[0, column] <= high[argument]
        elif sort == EQ:
            truth = symbol == argument
        elif sort == KIND:
            truth = (argument >> rank) & 1 == 1
        elif sort == SYMBOL:
            truth = stamps[argument] == now
        elif sort == SUBSET:
            truth = rank == SET and is_within(extras, 0, elements, column, argument, set_start, set_symbol)
        elif sort == ANY:
            truth = has_any(argument, set_start, set_symbol, stamps, now)
        elif sort == MEMBER:
            for at in range(set_start[argument], set_start[argument + 1]):
                truth = truth or set_symbol[at] == symbol
        truths[predicate] = truth


@kernel(counted=True)
def score_slots(directory, ints, low, high, states, coordinates, extras, elements, stamps, truths, scores):
    """The share of literals that are true, for each slot; of a branching program, -1.

    `truths` has room for a truth of each predicate.
    """
    starts = section(ints, directory, _START)
    literals = section(ints, directory, _LITERAL)
    programs = section(ints, directory, _PROGRAM)
    flags = section(ints, directory, _FLAGS)
    put_truths(directory, ints, low, high, states, coordinates, extras, elements, stamps, truths)
    for slot in range(len(scores)):
        start, end = starts[slot], starts[slot + 1]
        if programs[slot] >= 0:
            scores[slot] = -1.0
        elif end == start:
            scores[slot] = 0.0 if flags[slot] & NEVER != 0 else 1.0
        else:
            met = 0
            for at in range(start, end):
                if truths[literals[at] >> 1] != (literals[at] & 1 == 1):
                    met += 1
            scores[slot] = met / (end - start)
