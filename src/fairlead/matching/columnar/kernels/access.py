"""The ways into an index: what a row has leads to nodes, and nodes lead to further nodes.

The stack holds what is still to be looked at: the number of a node, or -1 - h for the comparisons with one bound
of list h, of which a row meets a run.
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import INEXACT, NUMBER
from fairlead.matching.columnar.kernels.grids import cell_of, find_child
from fairlead.matching.columnar.layout import BY_VALUE

__all__: list[str] = []


@kernel(inline=True)
def push(item, stack, top):
    """Put an item on the stack, unless there is none (-1)."""
    if item >= 0:
        stack[top] = item
        top += 1
    return top


@kernel(inline=True)
def push_cell(access, shape, value, rank, stack, top):
    """The node for the cell that a value lies in; for a number between floats, for the cells of both."""
    scale = access.shape_scale[shape]
    cell = cell_of(value, scale)
    top = push(find_child(shape, cell, access.children), stack, top)
    if rank == INEXACT:
        for toward in (-np.inf, np.inf):
            other = cell_of(np.nextafter(value, toward), scale)
            if other != cell:
                top = push(find_child(shape, other, access.children), stack, top)
    return top


@kernel(inline=True)
def push_values(access, rows, row, stack, top):
    """The nodes for the values of the columns, and for the cells they lie in."""
    width = rows.states.shape[1] // 2
    for column in range(width):
        rank = rows.states[row, column]
        if rank == 0:
            continue
        symbol = rows.states[row, width + column]
        if symbol >= 0:
            top = push(access.symbol_node[symbol], stack, top)
        plain = NUMBER if rank == INEXACT else rank
        for shape in range(access.column_shapes[column], access.column_shapes[column + 1]):
            if access.shape_rank[shape] == plain:
                top = push_cell(access, shape, rows.coordinates[row, column], rank, stack, top)
    return top


@kernel(inline=True)
def push_kinds(access, rows, row, stack, top):
    """The nodes for the kinds of the values, absence among them."""
    for each in range(len(access.kind_column)):
        if (access.kind_mask[each] >> rows.states[row, access.kind_column[each]]) & 1 == 1:
            top = push(access.kind_node[each], stack, top)
    return top


@kernel(inline=True)
def push_halves(access, rows, row, stack, top):
    """The lists of comparisons with one bound that a row has a value for."""
    for half in range(len(access.half_column)):
        rank = rows.states[row, access.half_column[half]]
        wanted = access.half_rank[half] & 31
        if rank == wanted or (rank == INEXACT and wanted == NUMBER):
            stack[top] = -1 - half
            top += 1
    return top


@kernel(inline=True)
def push_children(access, node, rows, row, stack, top):
    """The nodes below a node that the row leads to."""
    width = rows.states.shape[1] // 2
    for shape in range(access.nodes[4 * node + 2], access.nodes[4 * node + 3]):
        column = access.shape_column[shape]
        rank = rows.states[row, column]
        if access.shape_sort[shape] == BY_VALUE:
            symbol = rows.states[row, width + column]
            if symbol >= 0:
                top = push(find_child(shape, symbol, access.children), stack, top)
        elif rank == access.shape_rank[shape] or (rank == INEXACT and access.shape_rank[shape] == NUMBER):
            top = push_cell(access, shape, rows.coordinates[row, column], rank, stack, top)
    return top


@kernel(inline=True)
def bound_index(bounds, first, last, value):
    """The index of the first bound, in a part of a sorted list, that is not below a value."""
    while first < last:
        middle = (first + last) >> 1
        if bounds[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first


@kernel(inline=True)
def half_run(access, half, rows, row):
    """The entries of a list whose bound the row meets: at least a bound, or at most one.

    Where their filters compare a partner the other way round, with bounds that are at most the slack away from
    these, the run ends there: of all intervals that end behind a place, those that begin before another one.
    """
    column, partner = access.half_column[half], access.half_partner[half]
    rank, slack = access.half_rank[half] & 31, access.half_slack[half]
    value = rows.coordinates[row, column]
    inexact = rows.states[row, column] == INEXACT
    base = access.half_start[0]
    first, last = access.half_start[half] - base, access.half_start[half + 1] - base
    is_cut = partner >= 0 and rows.states[row, partner] == rank
    if access.half_rank[half] & 32 == 0:  # at least: all bounds up to the value
        above = np.nextafter(np.nextafter(value, np.inf) if inexact else value, np.inf)
        last = bound_index(access.half_bound, first, last, above)
        if is_cut:
            first = bound_index(access.half_bound, first, last, rows.coordinates[row, partner] - slack)
    else:
        below = np.nextafter(value, -np.inf) if inexact else value
        first = bound_index(access.half_bound, first, last, below)
        if is_cut:
            above = np.nextafter(rows.coordinates[row, partner] + slack, np.inf)
            last = bound_index(access.half_bound, first, last, above)
    return base + first, base + last
