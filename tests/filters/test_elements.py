"""Conditions on one element of a list, blocks of addresses, and expressions that ignore case."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.terms import Attribute

SCALARS: Any = st.sampled_from((1, 2, 5, "a", "ab", "b", None, True))
LISTS: Any = st.recursive(
    SCALARS | st.builds(lambda x: {"x": x}, SCALARS), lambda inner: st.lists(inner, max_size=3)
)
CONDITIONS = st.sampled_from(
    (
        *("element > 1", "element >= 2", 'element prefix "a"', 'element = "ab"', "element.x > 1"),
        *("element.x = 5", "element is record", "not element > 1", "element > 1 or element = 1"),
    )
)


def elements(value: Any) -> list[Any]:
    """The definition: lists in lists are opened up, and all else is an element."""
    return [each for item in value for each in (elements(item) if isinstance(item, list) else [item])]


@given(LISTS, CONDITIONS)
def test_some_element_satisfies_the_condition(value: Any, condition: str) -> None:
    expected = isinstance(value, list) and any(
        fl.parse(condition).matches(fl.Notification.of({"element": each})) for each in elements(value)
    )
    found = fl.parse(f"some x ({condition})")
    assert found.matches(fl.Notification.of({"x": value})) == expected
    assert fl.parse(str(found)) == found


@given(CONDITIONS, CONDITIONS, LISTS)
def test_relations_between_conditions_on_elements_are_sound(one: str, other: str, value: Any) -> None:
    first, second = fl.parse(f"some x ({one})"), fl.parse(f"some x ({other})")
    event = fl.Notification.of({"x": value})
    if fl.covers(first, second) and second.matches(event):
        assert first.matches(event)
    if first.matches(event) and second.matches(event):
        assert fl.overlaps(first, second)
    merger = fl.merge([first, second])
    assert merger is not None
    assert merger.filter.matches(event) == (first.matches(event) or second.matches(event))


def test_a_condition_covers_another_on_the_same_list_only() -> None:
    assert fl.covers(fl.parse("some x (element > 1)"), fl.parse("some x (element > 2)"))
    assert not fl.covers(fl.parse("some x (element > 1)"), fl.parse("some y (element > 2)"))
    assert not fl.overlaps(fl.parse("some x (element > 2 and element < 1)"), fl.parse("some x (element > 2)"))


@pytest.mark.parametrize(
    "text", ["some x (y > 1)", "some x (some y (element > 1))", "some x (//a)", "some x ()"]
)
def test_a_condition_is_about_the_element(text: str) -> None:
    with pytest.raises((fl.FilterError, fl.FilterSyntaxError)):
        fl.parse(text)


ADDRESSES = st.ip_addresses(v=4) | st.ip_addresses(v=6)


@given(ADDRESSES, st.integers(0, 128), ADDRESSES, st.booleans())
def test_an_address_is_in_a_block_iff_python_says_so(network: Any, bits: int, other: Any, near: bool) -> None:
    block = (
        ipaddress.ip_network((int(network), bits % (network.max_prefixlen + 1)), strict=False)
        if (network.version == 4)
        else ipaddress.IPv6Network((int(network), bits), strict=False)
    )
    address = type(network)(int(block.network_address) | int(other) & int(block.hostmask)) if near else other
    mapped = getattr(address, "ipv4_mapped", None)
    if address.version == block.version or mapped is not None:
        inside = address in block or (mapped is not None and mapped in block)
        expression = RegularExpression(f"(?cidr){block}")
        assert expression.matches(str(address)) == expression.matches(address.exploded) == inside


@given(
    st.sampled_from(("ab", "[a-c]+", "a[^b]", "a|B*", r"\x41b", "(?:aB){2}")), st.text("aAbBcCdD", max_size=4)
)
def test_ignoring_case_is_what_python_ignores(expression: str, text: str) -> None:
    found = RegularExpression(f"(?i){expression}").matches(text)
    assert found == bool(re.fullmatch(expression, text, re.IGNORECASE | re.ASCII | re.DOTALL))


def test_a_letter_of_one_other_case_is_folded_and_no_other() -> None:
    assert RegularExpression("(?i)é").matches("É")
    assert not RegularExpression("(?i)k").matches("\u212a")
    assert fl.identical(fl.parse('x ~ "(?i)ab"'), fl.parse('x in {"ab", "Ab", "aB", "AB"}'))
    with pytest.raises(fl.FilterError, match="no block of addresses"):
        fl.parse('x ~ "(?cidr)10.0.0/99"')


COMPARED = st.sampled_from((1, 2, 2.0, "a", "b", True, False, None, [1], [2]))
SIGNS = st.sampled_from(("=", "!=", "<", "<=", ">", ">="))


@given(SIGNS, st.dictionaries(st.sampled_from("ab"), COMPARED))
def test_two_attributes_compare_as_a_value_and_an_operand_do(sign: str, event: dict[str, Any]) -> None:
    notification = fl.Notification.of(event)
    value, other = notification.get("a"), notification.get("b")
    try:
        expected = other is not None and Constraint(Attribute("a"), Op(sign), other).holds(value)
    except (fl.FilterError, fl.ValueRefused):  # absent, or of a kind without an order
        expected = False
    filter = fl.parse(f'@compare("a", "{sign}", "b")')
    assert filter.matches(notification) == expected
    assert fl.parse(str(filter)) == filter
    assert fl.parse(f'@compare("b", "{TURNED[sign]}", "a")') == filter


TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@given(SIGNS, SIGNS, st.booleans(), st.dictionaries(st.sampled_from("ab"), COMPARED))
def test_relations_between_comparisons_are_sound(
    one: str, other: str, swap: bool, event: dict[str, Any]
) -> None:
    first = fl.parse(f'@compare("a", "{one}", "b")')
    second = fl.parse(f'@compare("b", "{other}", "a")' if swap else f'@compare("a", "{other}", "b")')
    notification = fl.Notification.of(event)
    if fl.covers(first, second) and second.matches(notification):
        assert first.matches(notification)
    if first.matches(notification) and second.matches(notification):
        assert fl.overlaps(first, second)


def test_relations_between_comparisons_are_known() -> None:
    def compared(sign: str) -> fl.Filter:
        return fl.parse(f'@compare("a", "{sign}", "b")')

    assert fl.covers(compared("<="), compared("<"))
    assert fl.covers(compared("!="), compared(">"))
    assert not fl.overlaps(compared("<"), compared(">"))
    assert not fl.overlaps(compared("="), compared("!="))
    assert not fl.overlaps(compared("<"), compared(">="))
    assert fl.overlaps(compared("<="), compared(">="))
    with pytest.raises(fl.FilterError, match="two names"):
        fl.parse('@compare("a", "~", "b")')
