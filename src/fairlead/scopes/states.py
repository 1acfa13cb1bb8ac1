"""The states of policies as text, so that a run of notifications can be continued by another process.

Law: a `Running` that is restored from the text of another decides about the next notifications as that one would,
provided that both have the same timeline.

A held version is stored with the order key that it was judged at; the graph of that key is a part of the timeline.
Where there are no order keys, the caller names the graph instead (`rank_of`, and `plan_of` to find it again).
The state of a policy that is written in Python is stored as JSON, so a tuple becomes a list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from fairlead.errors import ScopeError
from fairlead.model import Notification, Record
from fairlead.model.encoding import format_json, notification_from_json, notification_to_json, parse_json
from fairlead.model.order import OrderKey
from fairlead.scopes.evaluation import Arrival, Governor, Held, Route
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.policies import Direction, Hold, Own, Policy, Rate
from fairlead.scopes.running import Running, Seen, policy_at
from fairlead.scopes.sights import StateKey

__all__ = ["restore_states", "seen_from_json", "seen_to_json", "states_to_text"]

RankOf: TypeAlias = Callable[[Held], Any]
PlanOf: TypeAlias = Callable[[Any], ScopePlan]


def states_to_text(running: Running, rank_of: RankOf | None = None) -> str:
    """The states of all policies, and the order key of the last notification that they know.

    `rank_of` names the graph that a held version was judged by, where its order key does not say that.
    """
    states = [
        [*place, _state_to_json(place, policy_at(running.last_graph, place), state, rank_of)]
        for place, state in sorted(running.state.items())
    ]
    last = running.last_key
    return format_json({"last": None if last is None else _key_to_json(last), "states": states})


def restore_states(running: Running, text: str, plan_of: PlanOf | None = None) -> None:
    """Give a `Running` with the same timeline the states of a text. `plan_of` finds the graph of what is held."""
    given = parse_json(text)
    last = None if given["last"] is None else OrderKey(*given["last"])
    graph = running.last_graph if last is None else running.timeline.at(last).graph
    states: dict[StateKey, Any] = {}
    for owner, direction, number, state in given["states"]:
        place = (owner, direction, number)
        states[place] = _state_from_json(running, policy_at(graph, place), state, plan_of)
    running.continue_from(states, last)


def seen_to_json(seen: Seen) -> list[Any]:
    """A delayed delivery."""
    content = notification_to_json(seen.notification)
    return [seen.component, content, seen.tag, _key_to_json(seen.key), seen.moved]


def seen_from_json(given: list[Any]) -> Seen:
    """A delayed delivery, as it was stored."""
    component, content, tag, key, moved = given
    return Seen(component, notification_from_json(content), tag, OrderKey(*key), moved)


def _state_to_json(place: StateKey, policy: Policy | None, state: Any, rank_of: RankOf | None) -> Any:
    match None if policy is None else policy.choice:
        case Hold():
            return [
                _held_to_json(each) | ({} if rank_of is None else {"place": rank_of(each)}) for each in state
            ]
        case Own(reference=reference):
            try:
                return parse_json(format_json(state))
            except (TypeError, ValueError) as error:
                raise ScopeError(
                    f"the state of the policy {reference} of {place[0]} cannot be stored: {error}",
                    hint="between batches a state is stored as JSON: use texts, numbers, lists and dictionaries",
                ) from error
        case _:
            return state


def _state_from_json(running: Running, policy: Policy | None, state: Any, plan_of: PlanOf | None) -> Any:
    match None if policy is None else policy.choice:
        case Hold():
            return tuple(
                _held_from_json(
                    running.plan_at(OrderKey(*each["key"])) if plan_of is None else plan_of(each["place"]),
                    each,
                )
                for each in state
            )
        case Rate():
            return {name: tuple(times) for name, times in state.items()}
        case _:
            return state


def _key_to_json(key: OrderKey) -> list[Any]:
    return [key.time, key.producer, key.sequence, key.id]


def _content_to_json(content: Record) -> Any:
    return notification_to_json(Notification(content))


def _held_to_json(held: Held) -> dict[str, Any]:
    routes = []
    for route, arrival in held.arrivals.items():
        governor = route.governor
        written = None if governor is None else [governor.scope, _content_to_json(governor.content)]
        routes.append([sorted(route.trail), written, arrival.time, arrival.level])
    return {
        "published": notification_to_json(held.published),
        "key": _key_to_json(held.key),
        "version": notification_to_json(held.version),
        "owner": held.owner,
        "direction": held.direction.value,
        "names": list(held.names),
        "publisher": held.publisher,
        "competes": held.competes,
        "routes": routes,
    }


def _held_from_json(plan: ScopePlan, given: dict[str, Any]) -> Held:
    key = OrderKey(*given["key"])
    arrivals = {}
    for trail, written, time, level in given["routes"]:
        governor = None
        if written is not None:
            governor = Governor(written[0], notification_from_json(written[1]).attributes)
        arrivals[Route(frozenset(trail), governor)] = Arrival(time, level)
    return Held(
        plan=plan,
        published=notification_from_json(given["published"]),
        key=key,
        version=notification_from_json(given["version"]),
        owner=given["owner"],
        direction=Direction(given["direction"]),
        names=tuple(given["names"]),
        publisher=given["publisher"],
        competes=given["competes"],
        arrivals=arrivals,
    )
