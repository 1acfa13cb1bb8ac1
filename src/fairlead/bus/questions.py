"""A question is the same in whatever form it is given: text, a value, or what Python calls have built."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fairlead.errors import SubscriptionRefused

if TYPE_CHECKING:
    from fairlead.correlation import fair, patterns
    from fairlead.correlation.patterns.building import Expression
    from fairlead.correlation.standing import Question
    from fairlead.filters.schema import Schema

    Asked: TypeAlias = str | patterns.Pattern | Expression | fair.Subscription

__all__ = ["question_of"]


def question_of(given: Asked, choice: fair.Choice | None, schema: Schema | None) -> Question:
    """What is asked for: the composite events of a pattern, or the relations of a fair subscription."""
    from fairlead.correlation import fair, patterns
    from fairlead.correlation.patterns.building import Expression
    from fairlead.correlation.standing import Question

    if isinstance(given, fair.Subscription):
        return Question(given, choice or fair.Choice.FIRST_RECEIVED)
    if choice is not None:
        raise SubscriptionRefused(
            "a pattern says itself what it takes", hint="`choice` goes with a fair subscription"
        )
    if isinstance(given, str):
        return Question(patterns.parse(given, schema))
    if not isinstance(given, patterns.Pattern | Expression):
        raise SubscriptionRefused(
            f"no pattern: {given!r}",
            hint="text, a Pattern, event(…).then(…), or a fair subscription: fair.parse(…)",
        )
    return Question(given.pattern if isinstance(given, Expression) else given)
