"""What one would write in Spark SQL instead of a sequence of three steps: joins of a table with itself.

    A followed by B followed by C within w, same s    each A with the first B behind it and the first C behind that

`self_joins` pairs every A with all that may follow in its window and keeps the first: the general way, which also
carries other conditions between the steps. `windows` looks ahead with window functions: one sort, no joins, and
good for steps that ask nothing of one another. Both give all matches, one for each start (`taking one for each
start`); that one begins behind another (`past`) depends on what was taken before, which SQL does not say.

The tables: events (id, type, sensor, level, at), where at is in microseconds, and patterns (pattern, level), with
a null where any level will do.
"""

from __future__ import annotations

from typing import Final

__all__ = ["self_joins", "windows"]

_ASKED: Final = "p.level is null or p.level = a.level"


def self_joins(events: str, patterns: str, window_us: int) -> str:
    """A query: the pattern and the ids of A, B and C of each match, by joining events with themselves."""
    return f"""
        select pattern, a_id, b_id, c_id
        from (
            select p.pattern, a.id as a_id, b.id as b_id, c.id as c_id,
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
        select p.pattern, a.id as a_id, a.b.id as b_id, a.b.c.id as c_id
        from next_b a join {patterns} p on {_ASKED}
        where a.type = 'A' and a.b.c.at <= a.at + {window_us}
    """
