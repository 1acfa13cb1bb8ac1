"""`fairlead filter …`: the algebra at the prompt, with exit codes that mean something."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli import inputs, main


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    code = main(argv)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


# -- check -------------------------------------------------------------------------------------------------


def test_a_filter_that_can_be_read_is_printed_in_its_own_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "filter", "check", "(price>10)") == (0, "price > 10\n", "")


def test_a_filter_that_cannot_be_read_is_shown_with_a_caret(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(capsys, "filter", "check", "price > > 10")
    assert (code, out) == (2, "")
    assert err.startswith("fairlead: not a filter: line 1, column 9: ")
    assert "\n  price > > 10\n          ^\n" in err


def test_check_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "filter", "check", "price > 10", "--json")
    assert (code, json.loads(out)) == (0, {"valid": True, "filter": "price > 10", "satisfiable": True})
    code, out, _ = answer(capsys, "filter", "check", "price >", "--json")
    reply = json.loads(out)
    assert (code, reply["valid"], reply["column"]) == (2, False, 8)


def test_a_filter_that_nothing_can_match_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = answer(capsys, "filter", "check", "x > 5 and x < 5")
    assert (code, err) == (0, "no notification can match it\n")
    code, _, err = answer(capsys, "filter", "check", "time = 5 and x > 1")
    assert (code, err) == (0, "no notification can match it: time = 5 never holds\n")


def test_every_line_of_a_file_is_checked_and_the_bad_ones_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "filters.txt"
    path.write_text("# quotes\nprice > 10\n\nprice >\na = 1\nb in\n", encoding="utf-8")
    code, out, err = answer(capsys, "filter", "check", "--file", str(path))
    assert (code, out) == (2, "price > 10\na = 1\n")
    assert f"fairlead: {path}:4: line 1, column 8" in err
    assert f"fairlead: {path}:6: " in err
    assert err.endswith("4 filters, 2 of them bad\n")


def test_filters_to_check_can_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, b"\xef\xbb\xbfa = 1\nb = 2\n")
    code, out, _ = answer(capsys, "filter", "check", "-")
    assert (code, out) == (0, "a = 1\nb = 2\n")


def test_check_needs_one_filter_or_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "filter", "check")[0] == 2
    assert answer(capsys, "filter", "check", "a = 1", "--file", "x")[0] == 2


# -- relate, merge, simplify -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        ("x >= 3 and x <= 5", "x in [3, 5]", "identical"),
        ("price > 10", "price in [20, 30]", "covers"),
        ("price in [20, 30]", "price > 10", "covered"),
        ("price > 10", "price < 20", "overlaps"),
        ("price < 10", "price > 20", "disjoint"),
    ],
)
def test_relate_prints_the_relation(
    capsys: pytest.CaptureFixture[str], one: str, other: str, relation: str
) -> None:
    assert answer(capsys, "filter", "relate", one, other) == (0, f"{relation}\n", "")
    code, out, _ = answer(capsys, "filter", "relate", one, other, "--json")
    assert (code, json.loads(out)) == (0, {"relation": relation, "exact": True})


def test_relate_says_which_filter_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = answer(capsys, "filter", "relate", "a = 1", "b =")
    assert code == 2
    assert err.startswith("fairlead: the second filter: line 1, column 4")


def test_a_schema_changes_the_relation(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    schema = tmp_path / "schema.txt"
    schema.write_text("price: int\n")
    pair = ("price in {20, 21, 22, 23, 24, 25}", "price in [20, 25]")
    assert answer(capsys, "filter", "relate", *pair)[1] == "covered\n"
    assert answer(capsys, "filter", "relate", *pair, "--schema", str(schema))[1] == "identical\n"


def test_an_unknown_type_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    schema = tmp_path / "schema.txt"
    schema.write_text("type Quote\n")
    code, _, err = answer(capsys, "filter", "check", "type is Qoute", "--schema", str(schema))
    assert code == 2
    assert "Qoute" in err
    assert answer(capsys, "filter", "check", "type is Quote", "--schema", str(schema))[0] == 0


def test_merge_prints_the_merger(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "filter", "merge", "x in [2, 4]", "x in [3, 5]") == (0, "x in [2, 5]\n", "")
    code, out, _ = answer(capsys, "filter", "merge", "x in [2, 4]", "x in [3, 5]", "x = 1", "--json")
    reply: dict[str, Any] = json.loads(out)
    assert code == 0
    assert reply["perfect"]


def test_where_there_is_no_merger_the_answer_is_no(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(capsys, "filter", "merge", "x = 1 and y = 1", "x = 2 and y = 2", "--json")
    assert (code, json.loads(out)) == (1, {"filter": None, "perfect": False})
    assert "--imperfection-max" in err


def test_an_imperfect_merger_is_given_where_it_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    pair = ("x in [0, 4] and y in [0, 4]", "x in [2, 6] and y in [2, 6]")
    code, out, err = answer(capsys, "filter", "merge", *pair, "--imperfection-max", "1")
    assert (code, out) == (0, "x in [0, 6] and y in [0, 6]\n")
    assert err.startswith("imperfect: about ")


@pytest.mark.parametrize("share", ["2", "-1", "much", "nan"])
def test_a_share_is_between_0_and_1(capsys: pytest.CaptureFixture[str], share: str) -> None:
    code, _, err = answer(capsys, "filter", "merge", "a = 1", f"--imperfection-max={share}")
    assert code == 2
    assert "a number from 0 to 1" in err


def test_simplify_folds_constraints(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "filter", "simplify", "x >= 3 and x <= 5") == (0, "x in [3, 5]\n", "")
    assert json.loads(answer(capsys, "filter", "simplify", "x > 1", "--json")[1]) == {"filter": "x > 1"}


# -- explain -----------------------------------------------------------------------------------------------


def test_explain_says_for_each_line_why_it_matches_or_what_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"price": 12}\n\n{"price": 9}\n')
    code, out, err = answer(capsys, "filter", "explain", "price > 10", "--event", str(events))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "line 1 matches: price is 12, which is > 10",
        "  ✓ price > 10: price is 12, which is > 10",
        "line 3 does not match: price is 9, not > 10",
        "  ✗ price > 10: price is 9, not > 10",
    ]


def test_explain_in_json_and_with_a_line_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, b'nonsense\n{"data": {"price": 12}}\n')
    code, out, err = answer(capsys, "filter", "explain", "data.price > 10", "--event", "-", "--json")
    assert code == 3
    assert err.startswith("fairlead: standard input:1: rejected: ")
    reply = json.loads(out)
    assert (reply["line"], reply["matches"]) == (2, True)
    assert reply["explanation"]["value"] == 12


def test_what_the_terminal_cannot_show_is_shown_in_ascii(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, '{"city": "Köln"}\n'.encode())
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["filter", "explain", "exists city", "--event", "-"]) == 0
    terminal.flush()
    assert terminal.buffer.getvalue().splitlines()[1] == rb'  + exists city: city exists: "K\xf6ln"'  # type: ignore[attr-defined]


# -- options and errors ------------------------------------------------------------------------------------


EXTENSION = """
from fairlead.filters.extensions import ExtensionBase

class Divisible(ExtensionBase):
    name = "dividedby"

    def holds(self, value, literal):
        return value % int(literal) == 0
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with an extension in it."""
    from fairlead.filters.extensions import operators, unregister

    (tmp_path / "arithmetic_extension.py").write_text(EXTENSION)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "arithmetic_extension", raising=False)
    yield tmp_path
    if "dividedby" in operators():
        unregister("dividedby")


def test_an_extension_is_loaded_by_dotted_name_from_where_one_works(
    capsys: pytest.CaptureFixture[str], directory: Path
) -> None:
    text = 'n dividedby "3"'
    assert answer(capsys, "filter", "check", text)[0] == 2
    option = ("--extension", "arithmetic_extension:Divisible")
    assert answer(capsys, "filter", "check", text, *option) == (0, f"{text}\n", "")
    (directory / "events").write_text('{"n": 6}\n{"n": 7}\n')
    _, out, _ = answer(capsys, "filter", "explain", text, "--event", "events")  # it stays loaded
    assert [line for line in out.splitlines() if line.startswith("line")] == [
        'line 1 matches: n is 6, which satisfies dividedby "3"',
        'line 2 does not match: n is 7, which does not satisfy dividedby "3"',
    ]


@pytest.mark.usefixtures("directory")
def test_extensions_of_installed_packages_are_found_when_a_filter_needs_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.filters import extensions

    def installed() -> tuple[str, ...]:
        monkeypatch.syspath_prepend(str(Path.cwd()))
        return (extensions.load("arithmetic_extension:Divisible").name,)

    monkeypatch.setattr(extensions, "load_entry_points", installed)
    inputs._installed_extensions.cache_clear()
    assert answer(capsys, "filter", "check", 'n dividedby "3"')[0] == 0
    inputs._installed_extensions.cache_clear()


def test_an_extension_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = answer(capsys, "filter", "check", "a = 1", "--extension", "no.such.module:Thing")
    assert code == 2
    assert "no.such.module" in err


@pytest.mark.parametrize(
    "argv",
    [
        ("filter", "check", "a = 1", "--schema", "/no/such/file"),
        ("filter", "check", "--file", "/no/such/file"),
        ("filter", "explain", "a = 1", "--event", "/no/such/file"),
    ],
    ids=lambda argv: argv[-2],
)
def test_a_file_that_is_not_there_is_one_clear_message(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    code, out, err = answer(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith("fairlead: ")
    assert "/no/such/file" in err
    assert "Traceback" not in err
