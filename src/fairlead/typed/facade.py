"""Publishing and subscribing by instances of a class: on a bus, as a component of one, and over a network.

Whatever publishes and subscribes by notifications does so by instances: these facades convert, and add no rule.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from fairlead.filters import Filter, Schema
from fairlead.model import Notification
from fairlead.typed.model import Model

__all__ = ["AsyncTyped", "AsyncTypedSubscription", "Typed", "TypedSubscription"]

T = TypeVar("T")


class _Publishing(Protocol):
    """A bus, a component, or a client whose calls wait."""

    def publish(self, event: dict[str, Any], /) -> Notification | None: ...

    @property
    def subscribe(self) -> Callable[..., Any]: ...


class _AsyncPublishing(Protocol):
    """A client of an event loop."""

    async def publish(self, event: dict[str, Any], /) -> Notification: ...

    async def send(self, event: dict[str, Any], /) -> Notification: ...

    @property
    def subscribe(self) -> Callable[..., Any]: ...


class Typed(Generic[T]):
    """Instances of one class, published and delivered. `bus.of(Quote)` makes one, as components and clients do."""

    def __init__(self, target: _Publishing, cls: type[T], schema: Schema | None = None) -> None:
        self._target, self._schema = target, schema
        self.model = Model(cls)
        """The model of the class: its events and instances."""

    def publish(self, instance: T) -> Notification | None:
        """Publish an instance; the result is that of `publish` of the bus or client."""
        return self._target.publish(self.model.event(instance))

    def subscribe(
        self, filter: str | Filter = "true", callback: Callable[[T], object] | None = None, **options: Any
    ) -> TypedSubscription[T]:
        """Subscribe to the instances of the class and its subclasses that match a filter over their fields.

        A callback, on a bus, is called with the instance. The options are those of `subscribe` of the bus or
        client.
        """
        read = self.model.read
        if callback is not None:
            options["callback"] = lambda notification: callback(read(notification))
        narrowed = self.model.narrowed(filter, self._schema)
        return TypedSubscription(self._target.subscribe(narrowed, **options), self.model)


class TypedSubscription(Generic[T]):
    """The instances that are delivered: iterate over it, or `get` the next one. Leaving its block ends it.

    What cannot be read as an instance raises ValueRefused where it is taken, and is taken all the same.
    """

    def __init__(self, subscription: Any, model: Model[T]) -> None:
        self.subscription = subscription
        """The subscription to notifications, for all else."""
        self.model = model

    def get(self, timeout: float | None = None) -> T:
        """The next instance; waits for it, at most `timeout` seconds, then TimeoutError."""
        return self.model.read(self.subscription.get(timeout))

    def close(self) -> None:
        """Unsubscribe."""
        self.subscription.close()

    def __iter__(self) -> Iterator[T]:
        return map(self.model.read, self.subscription)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.subscription.__exit__(kind, error, trace)


class AsyncTyped(Generic[T]):
    """Instances of one class, published and delivered over a network; `client.of(Quote)` makes one."""

    def __init__(self, target: _AsyncPublishing, cls: type[T], schema: Schema | None = None) -> None:
        self._target, self._schema = target, schema
        self.model = Model(cls)
        """The model of the class: its events and instances."""

    async def publish(self, instance: T) -> Notification:
        """Publish an instance, and return its notification when that is synced in the broker's log."""
        return await self._target.publish(self.model.event(instance))

    async def send(self, instance: T) -> Notification:
        """Publish an instance without an answer."""
        return await self._target.send(self.model.event(instance))

    def subscribe(self, filter: str | Filter = "true", **options: Any) -> AsyncTypedSubscription[T]:
        """Subscribe to the instances of the class and its subclasses that match a filter over their fields. The
        options are those of the client's `subscribe`."""
        narrowed = self.model.narrowed(filter, self._schema)
        return AsyncTypedSubscription(self._target.subscribe(narrowed, **options), self.model)


class AsyncTypedSubscription(Generic[T]):
    """The instances that are delivered over a network. Leaving its block ends it.

    What cannot be read as an instance raises ValueRefused where it is taken, and is taken all the same.
    """

    def __init__(self, subscription: Any, model: Model[T]) -> None:
        self.subscription = subscription
        """The subscription to notifications, for all else."""
        self.model = model

    async def get(self) -> T:
        """The next instance. The one before is dealt with by asking."""
        return self.model.read(await self.subscription.get())

    async def close(self) -> None:
        """Unsubscribe. A durable subscription continues at the broker."""
        await self.subscription.close()

    async def __aiter__(self) -> AsyncIterator[T]:
        async for notification in self.subscription:
            yield self.model.read(notification)

    async def __aenter__(self) -> Self:
        await self.subscription.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.subscription.__aexit__(kind, error, trace)
