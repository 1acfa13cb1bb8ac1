"""Queries that one would write in Spark SQL instead of patterns and fair subscriptions, as far as SQL can say
them.

    A followed by B followed by C within w, same s            each A with the first B behind it, and the first C
    A followed by 1 or more B followed by C within w, same s  the same, with all B between the two
    T1.a < 300 and T2.a < 400                                 the n-th of either that passes, for every n

`self_joins` pairs every A with all that may follow in its window and keeps the first: the general way, which also
carries other conditions between the steps. `windows` looks ahead with window functions: one sort, no joins, and
good for steps that ask nothing of one another. Both give all matches, one for each start (`taking one for each
start`); that one begins behind another (`past`) depends on what was taken before, which SQL does not say. For the
same reason it has no fair subscription with a comparison between events: which relation is taken depends on what
others have disposed of. Bounds alone ask for numbering only (`numbered`).

The tables: events (id, type, sensor, level, at), where at is in microseconds, and patterns (pattern, level), with
a null where any level will do; for fair subscriptions, events (id, type, a, at) and bounds (pattern, type, bound,
types), a row for each of a pattern's types. What comes out is the pattern and the ids of each match.
"""

from __future__ import annotations

from typing import Final

__all__ = ["numbered", "repeated", "self_joins", "three_steps", "windows"]

_ASKED: Final = "p.level is null or p.level = a.level"


def self_joins(events: str, patterns: str, window_us: int) -> str:
    """Each A with the first B and the first C behind that, by joining events with themselves."""
    return f"""
        select *
        from (
            select p.pattern, a.sensor, a.at as a_at, c.at as c_at, a.id as a_id, b.id as b_id, c.id as c_id,
                   row_number() over (partition by p.pattern, a.id order by b.at, c.at) as place
            from {events} a
            join {patterns} p on {_ASKED}
            join {events} b on b.sensor = a.sensor and b.at > a.at and b.at <= a.at + {window_us}
            join {events} c on c.sensor = a.sensor and c.at > b.at and c.at <= a.at + {window_us}
            where a.type = 'A' and b.type = 'B' and c.type = 'C'
        )
        where place = 1
    """


def windows(events: str, patterns: str, window_us: int) -> str:
    """The same by looking ahead: for each event the next C, then for each the next B with its C."""
    # From the last to the first, what lies ahead has been seen: following rows would be read again for each.
    ahead = "over (partition by sensor order by at desc rows between unbounded preceding and 1 preceding)"
    return f"""
        with next_c as (
            select *, last(case when type = 'C' then struct(at, id) end, true) {ahead} as c from {events}
        ),
        next_b as (
            select *, last(case when type = 'B' then struct(id, c) end, true) {ahead} as b from next_c
        )
        select p.pattern, a.sensor, a.at as a_at, a.b.c.at as c_at,
               a.id as a_id, a.b.id as b_id, a.b.c.id as c_id
        from next_b a join {patterns} p on {_ASKED}
        where a.type = 'A' and a.b.c.at <= a.at + {window_us}
    """


def three_steps(matches: str, events: str) -> str:
    """The pattern and the ids of A, B and C."""
    return f"select pattern, array(a_id, b_id, c_id) as ids from ({matches})"


def repeated(matches: str, events: str) -> str:
    """The pattern and the ids of A, of all B between it and C, and of C."""
    between = "transform(array_sort(collect_list(struct(b.at, b.id))), each -> each.id)"
    return f"""
        select m.pattern, concat(array(m.a_id), {between}, array(m.c_id)) as ids
        from ({matches}) m
        join {events} b on b.sensor = m.sensor and b.at > m.a_at and b.at < m.c_at and b.type = 'B'
        group by m.pattern, m.a_id, m.c_id
    """


def numbered(events: str, bounds: str) -> str:
    """The pattern and the ids of the n-th events of all its types that pass their bounds, in the types' order."""
    return f"""
        select pattern, transform(array_sort(collect_list(struct(type, id))), each -> each.id) as ids
        from (
            select p.pattern, p.types, e.type, e.id,
                   row_number() over (partition by p.pattern, e.type order by e.at) as number
            from {events} e join {bounds} p on e.type = p.type and e.a < p.bound
        )
        group by pattern, types, number
        having count(*) = types
    """
