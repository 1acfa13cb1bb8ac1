"""The kernel of many components: an event is offered to every component that it concerns, in one call.

A component has a queue for each type, a list of nodes in the order of arrival; a node is an event that is held.
Comparisons form a tree over the queues. An event that arrives completes a match iff, from the ends of the tree
towards its queue, something stays alive in each: what goes with something alive in the queues beyond. The match
itself is then found without going back. What goes with nothing, seen from the event outwards, is dead; in the
order of the signature the first that is alive is taken (the last, for the most recent), and what does not go with
that is dead, too.
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

from fairlead.kernels import kernel

__all__ = [
    "BOOLEAN",
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "NOTHING",
    "NULL",
    "NUMBER",
    "OTHER",
    "TEXT",
    "TIME",
    "feed",
]

EQ, NE, LT, LE, GT, GE = range(6)
NOTHING, NUMBER, TIME, BOOLEAN, NULL, TEXT, OTHER = range(7)
"""The kinds of values: what compares with nothing first, and last what compares but is no number here."""
FREE, OUT, LEFT = range(3)
"""Positions in the state: the first free node, the number written out, the number of components that have to
leave."""


@kernel(inline=True)
def compares(op, one, other):
    if op == LT:
        return one < other
    if op == LE:
        return one <= other
    if op == GT:
        return one > other
    if op == GE:
        return one >= other
    return (one == other) == (op == EQ)


@kernel(inline=True)
def goes_with(ties, first, last, values, kinds, one, other):
    """Whether two events satisfy all comparisons between their slots."""
    for tie in range(first, last):
        mine, theirs = ties[tie, 0], ties[tie, 2]
        if kinds[one, mine] != kinds[other, theirs]:
            return False
        if not compares(ties[tie, 1], values[one, mine], values[other, theirs]):
            return False
    return True


@kernel()
def narrow(source, target, inwards, first, last, ties, values, kinds, following, events, alive):
    """Let those nodes of a queue live that go with a living one of another; how many they are.

    Ties are from the source to the target or, inwards, from the target to the source.
    """
    left = 0
    op = ties[first, 1]
    if last - first == 1 and op >= LT:  # the best one of each kind tells about all
        mine, theirs = ties[first, 0], ties[first, 2]
        if inwards:
            mine, theirs = theirs, mine
            op = LT + (op - LT + 2) % 4
        least = op <= LE
        best = np.inf if least else -np.inf
        best_time = best
        any_number = any_time = False
        node = source
        while node >= 0:
            if alive[node]:
                value = values[events[node], mine]
                if kinds[events[node], mine] == NUMBER:
                    any_number = True
                    best = min(best, value) if least else max(best, value)
                else:
                    any_time = True
                    best_time = min(best_time, value) if least else max(best_time, value)
            node = following[node]
        node = target
        while node >= 0:
            if alive[node]:
                value = values[events[node], theirs]
                if kinds[events[node], theirs] == NUMBER:
                    fits = any_number and compares(op, best, value)
                else:
                    fits = any_time and compares(op, best_time, value)
                alive[node] = fits
                left += fits
            node = following[node]
        return left
    node = target
    while node >= 0:
        if alive[node]:
            fits = False
            other = source
            while other >= 0 and not fits:
                if alive[other]:
                    if inwards:
                        fits = goes_with(ties, first, last, values, kinds, events[node], events[other])
                    else:
                        fits = goes_with(ties, first, last, values, kinds, events[other], events[node])
                other = following[other]
            alive[node] = fits
            left += fits
        node = following[node]
    return left


@kernel(inline=True)
def admission(queue, event, need_start, needs, kinds):
    """Whether an event can enter a queue: 1, 0, or -1 if one of its values is no number here."""
    admitted = 1
    for need in range(need_start[queue], need_start[queue + 1]):
        kind = kinds[event, needs[need, 0]]
        is_ordered = needs[need, 1] == 1
        if kind == NOTHING or (is_ordered and kind in (BOOLEAN, NULL)):
            return 0
        if kind == OTHER or (is_ordered and kind == TEXT):
            admitted = -1
    return admitted


@kernel(inline=True)
def completes(
    queue, first_queue, last_queue, edge_start, edges, ties, values, kinds, heads, following, events, alive
):
    """Whether the one event in a queue completes a match; then what is alive is what takes part in one."""
    for each in range(first_queue, last_queue):
        if heads[each] < 0:
            return False
    # Most events go with nothing in a neighbouring queue: that takes one look, and nothing need be marked.
    event = events[heads[queue]]
    for edge in range(edge_start[queue], edge_start[queue + 1]):
        if edges[edge, 0] == queue:
            node = heads[edges[edge, 1]]
            first, last = edges[edge, 2], edges[edge, 3]
            while node >= 0 and not goes_with(ties, first, last, values, kinds, event, events[node]):
                node = following[node]
            if node < 0:
                return False
    for each in range(first_queue, last_queue):
        node = heads[each]
        while node >= 0:
            alive[node] = True
            node = following[node]
    for edge in range(edge_start[queue + 1] - 1, edge_start[queue] - 1, -1):
        near, far, first, last = edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]
        if (
            narrow(heads[far], heads[near], True, first, last, ties, values, kinds, following, events, alive)
            == 0
        ):
            return False
    for edge in range(edge_start[queue], edge_start[queue + 1]):
        near, far, first, last = edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]
        narrow(heads[near], heads[far], False, first, last, ties, values, kinds, following, events, alive)
    return True


@kernel(inline=True)
def take(queue, newest, edge_start, edges, ties, values, kinds, heads, following, events, alive):
    """The node that a match takes from a queue: the first alive, or the last; what it rules out is dead."""
    taken, several = -1, False
    node = heads[queue]
    while node >= 0:
        if alive[node]:
            if taken < 0:
                taken = node
            else:
                several = True
                if newest:
                    alive[taken] = False
                    taken = node
                else:
                    alive[node] = False
        node = following[node]
    if several:
        for edge in range(edge_start[queue], edge_start[queue + 1]):
            near, far, first, last = edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]
            narrow(heads[near], heads[far], False, first, last, ties, values, kinds, following, events, alive)
    return taken


@kernel(inline=True)
def release(node, state, following, events, uses):
    uses[events[node]] -= 1
    following[node] = state[FREE]
    state[FREE] = node


_FEED = numba.int64(
    numba.int32[::1],  # slots of the events that arrive
    numba.int32[::1],  # starts of their filters
    numba.int32[::1],  # the filters that each of them matches
    numba.int64,  # the first event to look at
    numba.int32[::1],  # starts of the queues of a filter
    numba.int32[::1],  # queues
    numba.int32[:, ::1],  # by queue: its component's first queue, and the one behind its last
    numba.uint8[::1],  # by queue: whether the most recent is taken
    numba.int32[::1],  # by queue: how many it may hold
    numba.int32[::1],  # by queue: starts of edges outwards
    numba.int32[:, ::1],  # edges: near queue, far queue, first tie, last tie
    numba.int32[:, ::1],  # ties: column of near, comparison, column of far
    numba.int32[::1],  # by queue: starts of needs
    numba.int32[:, ::1],  # needs: column, whether it is ordered
    numba.int32[::1],  # heads of queues
    numba.int32[::1],  # tails
    numba.int32[::1],  # lengths
    numba.int32[::1],  # by node: the following one
    numba.int32[::1],  # by node: its event
    numba.boolean[::1],  # by node: whether it is alive
    numba.float64[:, ::1],  # values, by slot
    numba.int8[:, ::1],  # kinds, by slot
    numba.int32[::1],  # by slot: how many nodes hold it
    numba.int32[::1],  # out: event, first queue, and the slots that a match takes
    numba.int32[::1],  # queues that have to leave, each with whether the event is held already
    numba.int64[::1],  # state
)


@kernel(_FEED)
def feed(
    slots,
    filter_start,
    filters,
    begin,
    queue_start,
    queues,
    spans,
    newest,
    most,
    edge_start,
    edges,
    ties,
    need_start,
    needs,
    heads,
    tails,
    lengths,
    following,
    events,
    alive,
    values,
    kinds,
    uses,
    out,
    leaving,
    state,
):
    """Take in events, one after the other; how many were, up to one for which a component has to leave.

    There are free nodes, and room in `out` and `leaving`, for all that may be held or written.
    """
    for at in range(begin, len(slots)):
        slot = slots[at]
        for each in range(filter_start[at], filter_start[at + 1]):
            for place in range(queue_start[filters[each]], queue_start[filters[each] + 1]):
                queue = queues[place]
                admitted = admission(queue, slot, need_start, needs, kinds)
                if admitted == 0:
                    continue
                if admitted < 0:
                    leaving[2 * state[LEFT]], leaving[2 * state[LEFT] + 1] = queue, 0
                    state[LEFT] += 1
                    continue
                node = state[FREE]
                state[FREE] = following[node]
                following[node], events[node] = -1, slot
                uses[slot] += 1
                held = heads[queue]
                heads[queue] = node
                first, last = spans[queue, 0], spans[queue, 1]
                if completes(
                    queue,
                    first,
                    last,
                    edge_start,
                    edges,
                    ties,
                    values,
                    kinds,
                    heads,
                    following,
                    events,
                    alive,
                ):
                    count = state[OUT]
                    out[count], out[count + 1] = at, first
                    for own in range(first, last):
                        taken = take(
                            own,
                            newest[own],
                            edge_start,
                            edges,
                            ties,
                            values,
                            kinds,
                            heads,
                            following,
                            events,
                            alive,
                        )
                        out[count + 2 + own - first] = taken
                    for own in range(first, last):
                        taken = out[count + 2 + own - first]
                        out[count + 2 + own - first] = events[taken]
                        gone = heads[own]
                        while gone != taken:
                            after = following[gone]
                            release(gone, state, following, events, uses)
                            lengths[own] -= 1
                            gone = after
                        heads[own] = following[taken]
                        release(taken, state, following, events, uses)
                        lengths[own] -= 1
                    while held >= 0:
                        after = following[held]
                        release(held, state, following, events, uses)
                        held = after
                    lengths[queue] = 0
                    state[OUT] = count + 2 + last - first
                    continue
                if held >= 0:
                    following[tails[queue]] = node
                    heads[queue] = held
                tails[queue] = node
                lengths[queue] += 1
                if lengths[queue] == most[queue]:
                    leaving[2 * state[LEFT]], leaving[2 * state[LEFT] + 1] = queue, 1
                    state[LEFT] += 1
        if state[LEFT] > 0:
            return at + 1
    return len(slots)
