"""Messages to one neighbour wait for others, for a while, and are sent as one (book 4.1)."""

from __future__ import annotations

from fairlead.broker.messages import Batch, Effect, Message, Send, Wake

__all__ = ["Batches"]


class Batches:
    """The messages of one broker that wait, by neighbour."""

    def __init__(self, broker: str, batch_us: int) -> None:
        self._broker, self._batch_us = broker, batch_us
        self.waiting: dict[str, list[Message]] = {}
        self._deadline: int | None = None

    def gather(self, effects: list[Effect], now: int) -> list[Effect]:
        """The effects without the messages that wait; with those whose time has come."""
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send):
                self.waiting.setdefault(effect.to, []).append(effect.message)
            else:
                others.append(effect)
        if self.waiting and self._deadline is None:
            self._deadline = now + self._batch_us
            others.append(Wake(self._deadline))
        if self._deadline is not None and now >= self._deadline:
            self._deadline = None
            for to, messages in self.waiting.items():
                one = messages[0] if len(messages) == 1 else Batch(self._broker, tuple(messages))
                others.append(Send(to, one))
            self.waiting = {}
        return others
