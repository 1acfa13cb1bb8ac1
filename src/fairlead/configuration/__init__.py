"""Configuration files: a key is declared once, a file is read whole, and all its errors are reported at once.

keys       the declaration of keys, and what follows from it
values     one value: readers, and what they say of wrong values
reading    a file by its format, with all that is wrong

reading = Reading(file_of(Pipeline))
values = made(Pipeline, reading.tables(read_toml("alerts.toml", PipelineError, hint="")))
reading.check("alerts.toml", PipelineError)
pipeline = Pipeline(**values)
"""

from __future__ import annotations

from fairlead.configuration.keys import (
    ALWAYS,
    NEVER,
    SET,
    Counts,
    Format,
    Key,
    Off,
    Row,
    Table,
    Tables,
    file_of,
    made,
    written,
)
from fairlead.configuration.reading import Reading, all_of, read_toml, small_tables
from fairlead.configuration.values import (
    PATH,
    Kind,
    Reader,
    Wrong,
    count,
    expected,
    flag,
    listed,
    number,
    one_of,
    parsed,
    plain,
    quoted,
    some_of,
    suggestion,
    text,
    texts,
)

__all__ = [
    "ALWAYS",
    "NEVER",
    "PATH",
    "SET",
    "Counts",
    "Format",
    "Key",
    "Kind",
    "Off",
    "Reader",
    "Reading",
    "Row",
    "Table",
    "Tables",
    "Wrong",
    "all_of",
    "count",
    "expected",
    "file_of",
    "flag",
    "listed",
    "made",
    "number",
    "one_of",
    "parsed",
    "plain",
    "quoted",
    "read_toml",
    "small_tables",
    "some_of",
    "suggestion",
    "text",
    "texts",
    "written",
]
