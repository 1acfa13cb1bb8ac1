"""The outflow to a destination is one state of a few, from each of which it gets back to sending."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.network.node import Node
from fairlead.network.outflow import TABLES, Outflow, Step, To, rendered
from fairlead_lab.testing.chaos import Plan, World

FAULTS = ("reset", "pause", "partition", "slow disk", "crash a client", "link")
"""Those that connections and destinations suffer from; what logs suffer from is looked at elsewhere."""
FIRST = {"client": To.OPEN, "durable": To.AWAY, "link": To.AWAY}
SENDING = {"client": To.OPEN, "durable": To.LIVE, "link": To.LIVE}


def reached_from(kind: str, first: To) -> set[To]:
    reached, ahead = {first}, [first]
    while ahead:
        for state in set(TABLES[kind][ahead.pop()].values()) - reached:
            reached.add(state)
            ahead.append(state)
    return reached


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_every_state_can_be_reached_and_leads_back_to_sending(kind: str) -> None:
    assert reached_from(kind, FIRST[kind]) == set(TABLES[kind])
    for state in TABLES[kind]:
        is_over = kind == "client" and state is To.AWAY
        assert (SENDING[kind] in reached_from(kind, state)) != is_over, state


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_a_connection_may_end_in_every_state(kind: str) -> None:
    assert all(row[Step.LOSE] is To.AWAY for row in TABLES[kind].values())


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_senders_wait_for_nobody_who_is_away_and_only_where_there_is_an_end_to_it(kind: str) -> None:
    for state, row in TABLES[kind].items():
        outflow = Outflow(kind, state)
        assert not (state is To.AWAY and outflow.is_blocking)
        assert not outflow.is_blocking or {Step.EMPTY, Step.UNBLOCK, Step.GIVE_UP} & row.keys()


def test_what_follows_from_a_state() -> None:
    outflow = Outflow("link", To.AWAY)
    seen = []
    for step in (Step.CONNECT, Step.ANNOUNCE, Step.CATCH_UP, Step.FALL_BEHIND, Step.BLOCK, Step.CATCH_UP):
        outflow.on(step)
        flags = (outflow.is_ready, outflow.is_live, outflow.queues, outflow.is_blocking)
        seen.append((str(outflow), *flags))
    assert seen == [
        ("connected", False, False, False, False),
        ("catching up", True, False, False, False),
        ("live", True, True, False, False),
        ("behind", True, False, True, False),
        ("behind, blocking", True, False, True, True),
        ("live, blocking", True, True, False, True),
    ]
    with pytest.raises(KeyError):
        outflow.on(Step.CONNECT)


def test_a_table_has_a_text_form() -> None:
    assert rendered("durable").splitlines() == [
        "away",
        "    connect ─▶ behind",
        "    pass ─▶ away, idle",
        "    meet ─▶ away, awaited",
        "away, idle",
        "    connect ─▶ behind",
        "    meet ─▶ away, awaited",
        "    lose ─▶ away",
        "away, awaited",
        "    connect ─▶ behind",
        "    lose ─▶ away",
        "behind",
        "    catch_up ─▶ live",
        "    lose ─▶ away",
        "live",
        "    fall_behind ─▶ behind",
        "    lose ─▶ away",
    ]


class Watched(Node):
    """A node whose states agree with what it holds, whenever it has sent what it had to."""

    def flush(self) -> None:
        super().flush()
        links, durables = list(self.links.values()), list(self.durables.values())
        assert self.backpressure.blocking == {
            each for each in (*self.clients.values(), *links) if each.outflow.is_blocking
        }
        for each in (*links, *durables):
            assert (each.session is None) == str(each.outflow).startswith("away")
        for session in self.clients.values():
            assert bool(session.backlog) == (session.outflow.state is not To.OPEN)
        for session in self.sessions:
            assert session.is_read == session.inflow.is_read
            assert bool(session.inflow.frames) == (session.inflow.is_due or session.inflow.is_blocked) or (
                session.inflow.is_choked
            )


@settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
@given(
    plan=st.builds(
        Plan,
        seed=st.integers(0, 1 << 32),
        brokers=st.integers(1, 5),
        steps=st.integers(100, 500),
        faults=st.frozensets(st.sampled_from(FAULTS)),
        producers=st.integers(1, 3),
        listeners=st.integers(0, 3),
        guests=st.integers(0, 2),
    )
)
def test_under_faults_states_agree_with_what_waits(plan: Plan) -> None:
    assert World(plan, make_node=Watched).run().tally().holds
