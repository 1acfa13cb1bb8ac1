"""The loops of building an index: what `access` decides for each filter and each entry of a node."""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917, PLR1714, SIM109  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import ALL_KINDS, ANY, EQ, KIND, MEMBER, RANGE, SYMBOL
from fairlead.matching.columnar.kernels.grids import cell_of, mark_of
from fairlead.matching.columnar.layout import BRANCHING, GRANTED

__all__: list[str] = []

INACCESSIBLE = 1e9
"""The cost of what a filter cannot hang on."""
LOOKUP = 48.0
"""The cost of one look-up in a table, in verified candidates: it is a walk through memory, they are a
stream."""
GRID_SLACK = 1.6
"""A cell brings in filters whose interval touches it without containing the value."""


@kernel()
def choose(start, literal, likely, cost, program, clause_of, clause_start, clause_literal, chosen):
    """For each filter the cheapest literal or clause; conjunctions are sorted, the likeliest to fail first."""
    for each in range(len(start) - 1):
        first, last = start[each], start[each + 1]
        best, best_cost = -1, INACCESSIBLE
        if program[each] >= 0:
            for clause in range(clause_of[each], clause_of[each + 1]):
                total = 0.0
                for at in range(clause_start[clause], clause_start[clause + 1]):
                    total += cost[first + clause_literal[at]]
                if total < best_cost:
                    best, best_cost = clause, total
            chosen[each] = best
            continue
        for at in range(first, last):
            if cost[at] < best_cost:
                best, best_cost = at, cost[at]
        chosen[each] = -1 if best < 0 else 0
        if best >= 0:
            likely[best] = -1.0
        for at in range(first + 1, last):
            moved, key = literal[at], likely[at]
            other = at - 1
            while other >= first and likely[other] > key:
                literal[other + 1] = literal[other]
                likely[other + 1] = likely[other]
                other -= 1
            literal[other + 1] = moved
            likely[other + 1] = key


@kernel()
def post(
    start,
    literal,
    program,
    chosen,
    clause_start,
    clause_literal,
    heads,
    arguments,
    set_start,
    set_symbol,
    code,
    scale,
    low,
    high,
    how,
    first,
    second,
    bound,
    owner,
):
    """Write down what each filter hangs on; with empty arrays, only count."""
    count = 0
    writing = len(owner) > 0
    for each in range(len(start) - 1):
        if chosen[each] == -2:
            continue
        if chosen[each] == -1:
            if writing:
                how[count], first[count], owner[count] = 2, ALL_KINDS, each
            count += 1
            continue
        begin, end = 0, 1
        if program[each] >= 0:
            begin, end = clause_start[chosen[each]], clause_start[chosen[each] + 1]
        for at in range(begin, end):
            nth = clause_literal[at] if program[each] >= 0 else 0
            predicate = literal[start[each] + nth] >> 1
            head, argument = heads[predicate], arguments[predicate]
            sort = head & 7
            if sort == EQ or sort == SYMBOL:
                if writing:
                    how[count], first[count], owner[count] = 0, argument, each
                count += 1
            elif sort == MEMBER or sort == ANY:
                for member in range(set_start[argument], set_start[argument + 1]):
                    if writing:
                        how[count], first[count], owner[count] = 0, set_symbol[member], each
                    count += 1
            elif sort == KIND:
                if writing:
                    how[count], first[count], owner[count] = 2, (head >> 10) << 32 | argument, each
                count += 1
            elif np.isfinite(low[predicate]) and np.isfinite(high[predicate]):
                one = cell_of(low[predicate], scale[predicate])
                other = cell_of(high[predicate], scale[predicate])
                for cell in range(min(one, other), max(one, other) + 1):
                    if writing:
                        how[count], first[count], owner[count] = 1, code[predicate], each
                        second[count] = cell
                    count += 1
            else:
                upward = np.isfinite(low[predicate])
                if writing:
                    how[count], owner[count] = 3, each
                    first[count] = (head >> 10) << 8 | (head >> 3 & 31) | (0 if upward else 32)
                    bound[count] = low[predicate] if upward else high[predicate]
                count += 1
    return count


@kernel()
def number_predicates(
    literals, prints, heads, arguments, low, high, table, number, representatives, renumbered
):
    """Number the predicates as literals first refer to them, equal ones alike; how many there are.

    `kept` gets the predicate of each number, `renumbered` the literals with the new numbers.
    """
    mask = len(table) - 1
    count = 0
    for at in range(len(literals)):
        predicate = literals[at] >> 1
        if number[predicate] < 0:
            slot = np.int64(prints[predicate] & np.uint64(mask))
            while number[predicate] < 0:
                other = table[slot]
                if other < 0:
                    table[slot] = predicate
                    number[predicate] = count
                    representatives[count] = predicate
                    count += 1
                elif (
                    heads[other] == heads[predicate]
                    and arguments[other] == arguments[predicate]
                    and low[other] == low[predicate]
                    and high[other] == high[predicate]
                ):
                    number[predicate] = number[other]
                slot = (slot + 1) & mask
        renumbered[at] = number[predicate] << 1 | literals[at] & 1
    return count


@kernel()
def first_seen(owner, slot_of):
    """Number the filters in the order in which they are first met; the rest behind them."""
    count = 0
    for each in owner:
        if slot_of[each] < 0:
            slot_of[each] = count
            count += 1
    for each in range(len(slot_of)):
        if slot_of[each] < 0:
            slot_of[each] = count
            count += 1


@kernel()
def options(node, slot, used, start, literal, program, sort, bounded, code, chance, entry, position, key):
    """By which literals the entries of nodes could be split; with empty arrays, only count."""
    count = 0
    writing = len(key) > 0
    for each in range(len(node)):
        owner = slot[each]
        if program[owner] >= 0:
            continue
        for nth in range(min(64, start[owner + 1] - start[owner])):
            if used[each] >> np.uint64(nth) & np.uint64(1) != 0:
                continue
            signed = literal[start[owner] + nth]
            predicate = signed >> 1
            if signed & 1 == 1 or chance[predicate] > 0.5:
                continue
            if sort[predicate] == EQ or (sort[predicate] == RANGE and bounded[predicate]):
                if writing:
                    entry[count], position[count] = each, nth
                    key[count] = node[each] << 32 | code[predicate]
                count += 1
    return count


@kernel()
def pick(entry, position, popularity, slot, start, literal, sort, chance, best, choice):
    """For each entry the option that leaves the least to do: few false alarms, and a table that is shared.

    `best` begins with what an option has to be better than.
    """
    for option in range(len(entry)):
        each = entry[option]
        predicate = literal[start[slot[each]] + position[option]] >> 1
        slack = GRID_SLACK if sort[predicate] == RANGE else 1.0
        score = chance[predicate] * slack + LOOKUP / popularity[option]
        if score < best[each]:
            best[each] = score
            choice[each] = option


@kernel()
def sketch(slot, used, start, literal, program, heads, low, high, rank, least, scale, entries):
    """Sketch two intervals of each entry: the likeliest to fail, those not on its access path first."""
    for each in range(len(slot)):
        owner = slot[each]
        if program[owner] >= 0:
            continue
        count = 1
        for turn in range(2):
            for nth in range(start[owner + 1] - start[owner]):
                if count == 3:
                    break
                on_the_way = nth < 64 and used[each] >> np.uint64(nth) & np.uint64(1) != 0
                signed = literal[start[owner] + nth]
                predicate = signed >> 1
                head = heads[predicate]
                column = head >> 10
                if signed & 1 == 1 or head & 7 != RANGE or on_the_way != (turn == 1):
                    continue
                if rank[column] != head >> 3 & 31:
                    continue
                first = mark_of(low[predicate], least[column], scale[column])
                last = mark_of(high[predicate], least[column], scale[column])
                entries[each, count] = column << 22 | min(first, last) << 11 | max(first, last)
                count += 1


@kernel()
def encode(
    starts,
    literals,
    programs,
    flags,
    ordinals,
    jump_true,
    jump_false,
    heads,
    arguments,
    low,
    high,
    code_start,
    positions,
    code,
):
    """Write the code of every slot: what a kernel reads about a filter lies in one piece.

    `places` has room for the positions of the literals of one filter.
    """
    words = code.view(np.int64)
    for slot in range(len(programs)):
        begin, start, end = code_start[slot], starts[slot], starts[slot + 1]
        branching = programs[slot] >= 0
        flag = flags[slot] & 0xFF | (BRANCHING if branching else 0)
        if flag & GRANTED != 0:
            start += 1
        words[begin] = np.int64(ordinals[slot]) | np.int64(flag) << 32 | np.int64(end - start) << 40
        at = begin + 1
        for each in range(start, end):
            positions[each - start] = at - begin
            at += 2 if branching else 1
            if heads[literals[each] >> 1] & 7 == RANGE:
                at += 2
        for each in range(start, end):
            at = begin + positions[each - start]
            predicate = literals[each] >> 1
            head = np.int64(heads[predicate])
            head = (
                head & ~np.int64(0x100 if head & 7 == SYMBOL else 0x300) | np.int64(literals[each] & 1) << 8
            )
            words[at] = head << 32 | np.int64(arguments[predicate])
            at += 1
            if head & 7 == RANGE:
                code[at] = low[arguments[predicate]]
                code[at + 1] = high[arguments[predicate]]
                at += 2
            if branching:
                true, false = (
                    jump_true[programs[slot] + each - start],
                    jump_false[programs[slot] + each - start],
                )
                true_at = positions[true] if true >= 0 else np.int64(true)
                false_at = positions[false] if false >= 0 else np.int64(false)
                words[at] = true_at << 32 | (false_at & 0xFFFFFFFF)
