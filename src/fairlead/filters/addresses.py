r"""Blocks of IP addresses as regular expressions: the texts of all addresses in a block such as 10.0.0.0/24.

An address of version 4 is four numbers with dots between them; one of version 6 is eight groups of hexadecimal
digits with colons between them, of which a run of zeros may be `::`. Leading zeros do not count. An address of
version 4 is also that of version 6 which it is mapped to, `::ffff:a00:1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError, ip_network

from fairlead.errors import FilterError

__all__ = ["block_expression"]

_HEX = "[0-9A-Fa-f]"
_MAPPED = 0xFFFF << 32
_Range = tuple[int, int]


def block_expression(block: str) -> str:
    """A regular expression for the texts of the addresses in a block; FilterError if the text is none."""
    try:
        network = ip_network(block.strip(), strict=False)
    except (AddressValueError, NetmaskValueError, ValueError) as problem:
        raise FilterError(f"{block!r} is no block of addresses: {problem}", hint="10.0.0.0/24") from None
    if isinstance(network, IPv4Network):
        first, last = int(network.network_address), int(network.broadcast_address)
        mapped = _version_6(_MAPPED | first, _MAPPED | last)
        return f"{_version_4(first, last)}|{mapped}"
    first, last = int(network.network_address), int(network.broadcast_address)
    texts = _version_6(first, last)
    if first <= _MAPPED and last >= (_MAPPED | 0xFFFFFFFF):  # the mapped ones are among them
        return f"{_version_4(0, 0xFFFFFFFF)}|{texts}"
    return texts


def _version_4(first: int, last: int) -> str:
    return r"\.".join(f"0*{_decimal(low, high)}" for low, high in _digits(first, last, 4, 8))


def _version_6(first: int, last: int) -> str:
    groups = _digits(first, last, 8, 16)
    return "|".join(_spellings(groups))


def _digits(first: int, last: int, count: int, bits: int) -> list[_Range]:
    """The ranges of the numbers of a block, from the front; a block is aligned, so none depends on another."""
    mask = (1 << bits) - 1
    return [(first >> bits * n & mask, last >> bits * n & mask) for n in reversed(range(count))]


def _spellings(groups: Sequence[_Range]) -> Iterator[str]:
    written = [f"0*{_hexadecimal(low, high)}" for low, high in groups]
    yield ":".join(written)
    for before in range(8):
        for after in range(8 - before):
            left_out = groups[before : 8 - after]
            if all(low == 0 for low, _ in left_out):
                yield f"{':'.join(written[:before])}::{':'.join(written[8 - after :])}"


def _decimal(low: int, high: int) -> str:
    """An expression for the numbers from low to high, without leading zeros; both are below 256."""
    if (low, high) == (0, 255):
        return "([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
    return f"({'|'.join(map(str, range(low, high + 1)))})" if low < high else str(low)


def _hexadecimal(low: int, high: int) -> str:
    """The same for groups of four hexadecimal digits."""
    if low == high:
        return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{low:x}")
    if (low, high) == (0, 0xFFFF):
        return f"{_HEX}{{1,4}}"
    free = (high - low).bit_length()  # the low bits, of an aligned block
    digits = free // 4  # are any; with some bits of the digit before them free, that is one of several
    heads = [_head(low >> 4 * digits | part, digits) for part in range(1 << free % 4)]
    return f"({'|'.join(heads)})" if len(heads) > 1 else heads[0]


def _head(number: int, digits: int) -> str:
    """A number before so many free digits; nothing where it is zero, for then fewer digits will do."""
    if number == 0:
        return f"{_HEX}{{1,{digits}}}" if digits else "0"
    written = _hexadecimal(number, number)
    return f"{written}{_HEX}{{{digits}}}" if digits else written
