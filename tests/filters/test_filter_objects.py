"""Filter objects and class filters (book 3.1.4)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import ExtensionError, FilterError
from fairlead.filters.extensions import (
    InstanceFilter,
    as_filter,
    filter_class,
    filter_object,
    make,
    merge_objects,
)
from fairlead.model import Notification


@filter_object("quotes_in_tests")
class QuoteFilter:
    """Quotes of certain symbols (book Fig. 3.12)."""

    def __init__(self, *symbols: str) -> None:
        if not all(isinstance(symbol, str) for symbol in symbols):
            raise ValueError("a symbol is a string")
        self.arguments = tuple(sorted(set(symbols)))

    def matches(self, notification: Notification) -> bool:
        return notification.get("symbol") in self.arguments

    def covers(self, other: QuoteFilter) -> bool:
        return set(self.arguments) >= set(other.arguments)

    def merge(self, others: Iterable[QuoteFilter]) -> QuoteFilter:
        return QuoteFilter(*self.arguments, *(symbol for other in others for symbol in other.arguments))


class Quote:
    pass


class StockQuote(Quote):
    pass


class BondQuote(Quote):
    pass


class GreenBondQuote(BondQuote):
    pass


HERE = __name__
CLASSES = (Quote, StockQuote, BondQuote, GreenBondQuote)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest imports test files without listing them among the modules, where classes are looked up."""
    import types

    module = types.ModuleType(HERE)
    module.__dict__.update({each.__name__: each for each in CLASSES})
    monkeypatch.setitem(sys.modules, HERE, module)


def instance(*classes: type | str) -> InstanceFilter:
    names = (each if isinstance(each, str) else f"{each.__module__}.{each.__qualname__}" for each in classes)
    return InstanceFilter("quote", *names)


def test_a_filter_object_tests_notifications_itself() -> None:
    quotes = make("quotes_in_tests", ["SAP", "IBM"])
    assert quotes.matches(Notification.of({"symbol": "IBM"}))
    assert not quotes.matches(Notification.of({"symbol": "MSFT"}))
    assert quotes == make("quotes_in_tests", quotes.arguments) == as_filter(QuoteFilter("IBM", "SAP", "IBM"))
    assert quotes.arguments == ("IBM", "SAP")


def test_filter_objects_bring_their_own_covering_and_merging() -> None:
    ibm, sap = make("quotes_in_tests", ["IBM"]), make("quotes_in_tests", ["SAP"])
    merged = merge_objects([ibm, sap])
    assert merged == make("quotes_in_tests", ["IBM", "SAP"])
    assert merged is not None
    assert merged.test.covers(ibm.test)
    assert not ibm.test.covers(merged.test)
    assert merge_objects([ibm, make("instance", ["quote", "m.Quote"])]) is None


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(ExtensionError, match=r"no filter class 'qotes'(.|\n)*quotes_in_tests"):
        make("qotes", [])
    with pytest.raises(FilterError, match="a symbol is a string"):
        make("quotes_in_tests", [5])
    with pytest.raises(FilterError, match="takes the name of an attribute"):
        make("instance", ["quote"])
    with pytest.raises(ExtensionError, match="is not registered"):
        as_filter(_Unregistered())
    with pytest.raises(ExtensionError, match="no method 'covers'"):
        filter_object("no_filter_in_tests")(Quote.__class__("Half", (), {"matches": lambda *_: True}))
    with pytest.raises(ExtensionError, match="another filter class"):
        filter_object("quotes_in_tests")(InstanceFilter)
    with pytest.raises(ExtensionError, match="not a plain word"):
        filter_object("two words")(QuoteFilter)


@dataclass
class _Unregistered:
    arguments: tuple[Any, ...] = ()

    def matches(self, notification: Notification) -> bool:
        return True

    def covers(self, other: Any) -> bool:
        return True


def test_defining_the_same_class_anew_replaces_it() -> None:
    def define() -> type:
        @filter_object("redefined_in_tests")
        class Again(_Unregistered):
            pass

        return Again

    first, second = define(), define()
    assert first is not second
    assert filter_class("redefined_in_tests") is second


# -- classes -------------------------------------------------------------------------------------------------


def test_an_instance_of_a_subclass_is_an_instance() -> None:
    bonds = make("instance", ["quote", f"{HERE}.BondQuote"])
    assert bonds.matches(Notification.of({"quote": BondQuote()}))
    assert bonds.matches(Notification.of({"quote": GreenBondQuote()}))
    assert not bonds.matches(Notification.of({"quote": StockQuote()}))
    assert not bonds.matches(Notification.of({"quote": 5}))
    assert not bonds.matches(Notification.of({}))


def test_a_class_covers_its_subclasses() -> None:
    assert instance(Quote).covers(instance(GreenBondQuote))
    assert instance(Quote).covers(instance(StockQuote, BondQuote))
    assert instance(StockQuote, BondQuote).covers(instance(GreenBondQuote))
    assert not instance(StockQuote).covers(instance(Quote))
    assert not instance(Quote).covers(InstanceFilter("other", f"{HERE}.Quote"))


def test_a_class_that_is_not_loaded_is_known_by_name_and_never_imported() -> None:
    unknown = instance("antigravity.Machine")
    assert unknown.covers(instance("antigravity.Machine"))
    assert not instance("builtins.object").covers(unknown)
    assert not unknown.matches(Notification.of({"quote": Quote()}))
    assert "antigravity" not in sys.modules


def test_merging_keeps_the_classes_that_no_other_covers() -> None:
    assert instance(Quote).merge([instance(StockQuote), instance(GreenBondQuote)]) == instance(Quote)
    assert instance(StockQuote).merge([instance(GreenBondQuote)]) == instance(StockQuote, GreenBondQuote)
    assert instance(StockQuote).merge([InstanceFilter("other", "m.C")]) is None


def test_all_direct_subclasses_merged_do_not_let_a_later_one_in() -> None:
    merged = instance(StockQuote).merge([instance(BondQuote)])
    assert merged is not None

    class LaterQuote(Quote):
        pass

    assert merged.matches(Notification.of({"quote": GreenBondQuote()}))
    assert not merged.matches(Notification.of({"quote": LaterQuote()}))
    assert not merged.matches(Notification.of({"quote": Quote()}))
    assert not merged.covers(instance(Quote))


instances = st.lists(st.sampled_from(CLASSES), min_size=1, max_size=3).map(lambda classes: instance(*classes))
QUOTES = [Notification.of({"quote": each()}) for each in CLASSES]


@given(instances, instances)
def test_covering_and_merging_of_classes_agree_with_their_instances(
    one: InstanceFilter, other: InstanceFilter
) -> None:
    assert one.covers(other) == all(one.matches(quote) for quote in QUOTES if other.matches(quote))
    merged = one.merge([other])
    assert merged is not None
    assert all(merged.matches(quote) == (one.matches(quote) or other.matches(quote)) for quote in QUOTES)
