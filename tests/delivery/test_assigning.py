"""`Assignments` against the specification of shared subscribers, which finds mutants of it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.delivery.assigning import Assignments, Count, Handout, Terms
from fairlead.errors import ValueRefused
from fairlead_lab.delivery.sharing import Happened, violations

MEMBERS = ("ada", "bob", "cyd")

TERMS = st.builds(
    Terms,
    st.just(True),
    st.sampled_from(["", "order"]),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from([0, 50]),
)


def run(  # noqa: PLR0915 - one scene, with what may happen in it
    terms: Terms, seed: int, steps: int = 60, kind: type[Assignments[str]] = Assignments
) -> list[str]:
    """What is wrong with a random run, which comes to rest in the end."""
    rng, now, ordinals = random.Random(seed), 0, 0
    assignments, happened = kind(terms), list[Happened]()
    keys: dict[int, str] = {}

    def record(what: str, ordinal: int = -1, member: str | None = None, **others: int) -> None:
        happened.append(Happened(what, ordinal, member, key=keys.get(ordinal), time=now, **others))

    def handed(handout: Handout[str] | None) -> None:
        if handout is not None:
            record("handed", handout.ordinal, handout.member, attempt=handout.attempt)

    def bury(ordinal: int) -> None:
        record("dead", ordinal)
        assignments.settle(ordinal)

    def assign() -> None:
        holders = {ordinal: member for member, held in assignments.members.items() for ordinal in held}
        for ordinal in assignments.overdue(now):
            record("overdue", ordinal, holders[ordinal])
            holders.pop(ordinal)
            bury(ordinal)
        for ordinal, member in holders.items():
            if ordinal not in assignments.members.get(member, {}):
                record("overdue", ordinal, member)
        for handout in assignments.assign(now):
            handed(handout)

    def say(what: str, member: str, ordinal: int) -> None:
        if what == "accept":
            if assignments.accept(member, ordinal):
                record("accepted", ordinal, member)
        elif what == "renew":
            if assignments.renew(member, ordinal, now):
                record("renewed", ordinal, member)
        else:
            after = rng.choice([0, 0, 30])
            is_dead = assignments.reject(member, ordinal, now, after)
            if is_dead is not None:
                record("rejected", ordinal, member, not_before=now + after if after and not is_dead else 0)
                if is_dead:
                    bury(ordinal)

    for _ in range(steps):
        act = rng.choice(
            ["join", "leave", "offer", "offer", "offer", "accept", "accept", "reject", "renew", "time"]
        )
        member = rng.choice(MEMBERS)
        if act == "join":
            assignments.join(member)
        elif act == "leave" and member in assignments.members:
            assignments.leave(member)
            record("lost", member=member)
        elif act == "offer":
            keys[ordinals] = rng.choice("ab")
            record("offered", ordinals)
            handed(assignments.offer(ordinals, now, keys[ordinals]))
            ordinals += 1
        elif act in ("accept", "reject", "renew") and ordinals:
            held = [*assignments.members.get(member, {})]
            say(act, member, rng.choice(held) if held and rng.random() < 0.8 else rng.randrange(ordinals))
        now += rng.choice([0, 0, 10, 40]) if act == "time" else 0
        assign()
    assignments.join("ada")
    for _ in range(20 * (ordinals + 1)):
        assign()
        for member, held in list(assignments.members.items()):
            for ordinal in [*held]:
                say("accept", member, ordinal)
        now += 100
    return violations(terms, happened, is_settled=True)


@given(TERMS, st.integers(0, 10_000))
def test_every_run_keeps_the_specification(terms: Terms, seed: int) -> None:
    assert run(terms, seed) == []


class TwoMembers(Assignments[str]):
    """Hands an ordinal to a second member."""

    def assign(self, now: int, may: Callable[[str], bool] = lambda member: True) -> Iterator[Handout[str]]:
        yield from super().assign(now, may)
        for ordinal, held in [*self._held.items()][:1]:
            others = [member for member in self.members if member != held.member]
            yield from [Handout(ordinal, member, held.attempt + 1) for member in others[:1]]


class LostWithTheMember(Assignments[str]):
    """The ordinals of a member that has gone never come again."""

    def leave(self, member: str) -> None:
        for ordinal in [*self.members.pop(member, ())]:
            self._drop(ordinal)
        self._served.pop(member, None)


class KeyMoves(Assignments[str]):
    """A key goes to whoever has the fewest, though another has some of it."""

    def _choice(self, ordinal: int, may: Callable[[str], bool]) -> str | None:
        terms, self.terms = self.terms, Terms(True)
        try:
            return super()._choice(ordinal, may)
        finally:
            self.terms = terms


class AttemptStays(Assignments[str]):
    """The attempt does not rise."""

    def _hand(self, ordinal: int, now: int, may: Callable[[str], bool]) -> Handout[str] | None:
        handout = super()._hand(ordinal, now, may)
        return None if handout is None else handout._replace(attempt=1)


class AnybodyAccepts(Assignments[str]):
    """What a member accepts counts, though it has lost the ordinal."""

    def accept(self, member: str, ordinal: int) -> bool:
        is_open = ordinal in self._held
        if is_open:
            self.settle(ordinal)
        return is_open


class LossCountsAsFailure(Assignments[str]):
    """Members that go away make deliveries die that nobody has failed on."""

    def _take_back(self, ordinal: int, *, has_failed: bool) -> None:
        super()._take_back(ordinal, has_failed=True)


class NeverDead(Assignments[str]):
    """What has failed too often comes again all the same."""

    def _fail(self, ordinal: int, not_before: int) -> bool:
        self._take_back(ordinal, has_failed=True)
        heapq.heappush(self._due, ordinal)
        return False


class NoDelay(Assignments[str]):
    """What is to come later comes at once."""

    def reject(self, member: str, ordinal: int, now: int, after_us: int = 0) -> bool | None:
        return super().reject(member, ordinal, now)


class RenewedInVain(Assignments[str]):
    """A member that renews its time loses the ordinal all the same."""

    def renew(self, member: str, ordinal: int, now: int) -> bool:
        return self.holds(member, ordinal)


@pytest.mark.parametrize(
    "mutant",
    [
        TwoMembers,
        LostWithTheMember,
        KeyMoves,
        AttemptStays,
        AnybodyAccepts,
        LossCountsAsFailure,
        NeverDead,
        NoDelay,
        RenewedInVain,
    ],
)
def test_a_mutant_breaks_the_specification(mutant: type[Assignments[str]]) -> None:
    terms = Terms(True, "order", 2, 2, 50)
    assert any(run(terms, seed, kind=mutant) for seed in range(60))


def test_equals_are_served_in_turn() -> None:
    assignments: Assignments[str] = Assignments(Terms(True))
    for member in MEMBERS:
        assignments.join(member)
    served = [assignments.offer(ordinal, 0) for ordinal in range(6)]
    assert [each.member for each in served if each is not None] == [*MEMBERS, *MEMBERS]


def test_counts_that_are_recalled_go_on() -> None:
    assignments: Assignments[str] = Assignments(Terms(attempts_max=3), {4: Count(2, 2)})
    assignments.join("")
    handout = assignments.offer(4, 0)
    assert handout is not None
    assert handout.attempt == 3
    assert assignments.reject("", 4, 0) is True


@pytest.mark.parametrize(
    "wrong", [{"window": -1}, {"window": 5_000}, {"attempts_max": -1}, {"accept_within_us": -1}, {"per": "x"}]
)
def test_terms_without_a_meaning_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueRefused):
        Terms(**wrong)  # type: ignore[arg-type]
