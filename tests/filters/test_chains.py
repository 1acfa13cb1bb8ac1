"""Chains keep a partial order as a table of all pairs does, in memory that grows with the number of members."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters import chains
from fairlead.filters.chains import Chain, Member


class Subset(Member):
    """A set of numbers; one is above another iff it contains it."""

    def __init__(self, numbers: frozenset[int]) -> None:
        self.numbers = numbers


def put_in(one: Subset, there: list[Subset]) -> None:
    """Tell the chains what is above a new member and what is below it, having looked at all of them."""
    above: dict[Chain[Subset], Subset] = {}
    below: dict[Chain[Subset], Subset] = {}
    for each in there:
        if each.numbers > one.numbers and (each.chain not in above or above[each.chain].rank < each.rank):
            above[each.chain] = each
        if each.numbers < one.numbers and (each.chain not in below or each.rank < below[each.chain].rank):
            below[each.chain] = each
    chains.add(one, len(one.numbers) % 2, above, below)


def check(there: list[Subset]) -> None:
    """All pairs, and by chain the nearest ones."""
    for one in there:
        for other in there:
            assert chains.is_above(one, other) is (one.numbers >= other.numbers)
        assert set(map(id, spread(chains.lowest_above(one), Chain.until))) == {
            id(each) for each in there if each.numbers >= one.numbers
        }
        assert set(map(id, spread(chains.highest_below(one), Chain.since))) == {
            id(each) for each in there if each.numbers <= one.numbers
        }
    # A step begins at one member and leads to another.
    kept = sum(len(steps) for chain in {each.chain for each in there} for steps in chain.above.values())
    assert sum(chains.steps(each) for each in there) == kept
    for chain in {each.chain for each in there}:
        assert set(chain.below) == {
            each.chain for each in there if chain in each.chain.above and each.chain is not chain
        }


def spread(nearest: object, part: Callable[[Chain[Subset], Subset], list[Subset]]) -> list[Subset]:
    return [each for one in nearest for each in part(one.chain, one)]  # type: ignore[attr-defined]


def run(plan: list[tuple[frozenset[int], int]]) -> None:
    """Members come, and after some of them another one goes."""
    there: list[Subset] = []
    for numbers, leaving in plan:
        if all(each.numbers != numbers for each in there):
            one = Subset(numbers)
            put_in(one, there)
            there.append(one)
        if leaving < len(there):
            chains.remove(there.pop(leaving))
        check(there)


SUBSETS = st.frozensets(st.integers(0, 4))


@given(st.lists(st.tuples(SUBSETS, st.integers(0, 24)), max_size=16))
def test_chains_relate_as_all_pairs_do_whoever_comes_and_goes(plan: list[tuple[frozenset[int], int]]) -> None:
    run(plan)


def nested(sizes: list[int]) -> list[Subset]:
    there: list[Subset] = []
    for size in sizes:
        one = Subset(frozenset(range(size)))
        put_in(one, there)
        there.append(one)
    return there


def test_between_two_neighbours_there_is_always_room() -> None:
    check(
        nested([400, 0, *range(2, 150, 2)])
    )  # each between the widest and the last: the ranks between them run out


def test_a_row_of_nested_members_is_one_chain_without_steps() -> None:
    sizes = list(range(0, 400, 2))
    random.Random(3).shuffle(sizes)
    there = nested(sizes)
    assert len({each.chain for each in there}) == 1
    assert sum(map(chains.steps, there)) == 0


def forgets_what_is_below(patch: pytest.MonkeyPatch) -> None:
    found = chains._raise
    patch.setattr(
        chains, "_raise", lambda chain, other, *rest: other in chain.above or found(chain, other, *rest)
    )


def drops_steps_of_who_leaves(patch: pytest.MonkeyPatch) -> None:
    def removed(member: Member) -> None:
        chain = member.chain
        for other, steps in list(chain.above.items()):
            if steps[0] is member:
                chains._drop(chain, other, steps, 0)
        found(member)

    found = chains.remove
    patch.setattr(chains, "remove", removed)


def joins_any_chain(patch: pytest.MonkeyPatch) -> None:
    found = chains._fitting

    def fitting(shape: object, above: dict, below: dict) -> object:  # type: ignore[type-arg]
        chain, at = found(shape, above, below)
        longest = max(above, key=lambda each: len(each.members), default=None)
        return (longest, len(longest.members)) if longest is not None and not chain.members else (chain, at)

    patch.setattr(chains, "_fitting", fitting)


@pytest.mark.parametrize(
    "mutant",
    [forgets_what_is_below, drops_steps_of_who_leaves, joins_any_chain],
    ids=lambda each: each.__name__,
)
def test_mutants_are_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_many(random.Random(1))


def run_many(rng: random.Random) -> None:
    for _ in range(200):
        steps = range(rng.randrange(4, 16))
        run([(frozenset(rng.sample(range(5), rng.randrange(6))), rng.randrange(24)) for _ in steps])
