"""Every exception of Fairlead.

    FairleadError
    ├── FilterSyntaxError (ValueError)   a filter's text cannot be read: line, column, what was expected
    │   ├── ScopeSyntaxError             a scope graph's text cannot be read
    │   └── TranslationRefused           a text of a dialect that cannot be read, or says what no filter can
    ├── FilterError (ValueError)         a readable filter that means nothing: an unknown type, NaN
    ├── ChannelError (ValueError)        channels that cannot be: one that is never used, a name that is taken
    ├── ScopeError (ValueError)          a scope graph that cannot be: a cycle, an unknown name
    │   └── NotAdmitted                  a scope does not admit a component
    ├── PolicyError (ValueError)         an access policy that cannot be: an unknown role, a cycle
    ├── NotAuthenticated (PermissionError) credentials that a broker does not accept
    ├── Forbidden (PermissionError)      the access policy does not let a principal do that
    ├── KeyringError (ValueError)        a key that is not there, or a file of keys that cannot be read
    ├── SealBroken (ValueError)          a sealed attribute that was changed or moved, or has a key of the past
    ├── SchemaError (ValueError)         a schema file or declaration is wrong
    ├── ValueRefused (ValueError)        a value that no notification may hold, such as a lone surrogate
    ├── ExtensionError (ValueError)      a type, operator or filter class that cannot be registered or loaded
    ├── EngineUnknown (LookupError)      a matching engine that does not exist
    ├── NotInstalled (ImportError)       a feature whose libraries come with an extra that is not installed
    ├── DamagedIndex (ValueError)        a file that is no index of filters, or not whole any more
    ├── DamagedLog (ValueError)          a file that is no segment of a log, or damage among synced records
    ├── Gone (LookupError)               a record that retention has removed from the log
    ├── LogClosed (RuntimeError)         a call to a closed log
    ├── LogFailed (OSError)              a log could not be synced, and its writer has stopped for good
    ├── LogFull (OSError)                no room on the disk: nothing was appended, and nothing is lost
    ├── LogInUse (RuntimeError)          a log that has a writer already
    ├── ProtocolError (ValueError)       bytes that are none of the network's frames
    ├── NetworkError (ValueError)        a broker or a network that cannot be run as it is configured
    ├── BrokerRefused (RuntimeError)     a broker refused a request; its reason
    │   ├── AccessRefused                the access policy of a broker does not let a client do that
    │   └── NotThere                     a request to end something that does not exist
    ├── NotAcknowledged (TimeoutError)   a durable subscription that some broker has not acknowledged in time
    ├── ConnectionEnded (ConnectionError) a broker cannot be reached, or has ended the connection
    ├── BusClosed (RuntimeError)         a call to a closed bus
    ├── NotAdvertised (ValueError)       a publication that its producer has not advertised
    ├── RequestRefused (RuntimeError)    a request that could never be answered, such as one within a callback
    ├── NobodyListens (LookupError)      a request that no subscription matches
    ├── NoReply (TimeoutError)           a request that nobody replied to in time
    ├── SubscriptionEnded (RuntimeError) a subscription is closed, and all of it has been read
    ├── QualityRefused (ValueError)      a subscription that requires more than its channels offer
    ├── SubscriptionRefused (ValueError) a subscription that contradicts another one
    ├── TopologyRefused (ValueError)     an overlay of brokers that cannot be: in pieces, an unknown name
    ├── TraceRefused (ValueError)        a trace that no run can have
    ├── TransactionRefused (RuntimeError) a transaction with a member that is refused: none is published
    ├── ScenarioError (ValueError)       a scenario that cannot be simulated as its file says
    ├── SimulationFailed (RuntimeError)  a simulated run violated an invariant or delivered wrongly
    ├── PipelineError (ValueError)       a pipeline that cannot be run as it is configured, or on that output
    ├── SparkUnavailable (RuntimeError)  Spark cannot be started or reached
    ├── KafkaFailed (RuntimeError)       Kafka or a schema registry cannot be reached, or refuses something
    ├── BadInput                         arguments or files that a command cannot use; the command line's own
    └── Undecided (RuntimeError)         a relation was not settled within its budget; callers answer soundly

Bad input that arrives in bulk is not raised: it is a `Rejection`, a value that is stored and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

__all__ = [
    "AccessRefused",
    "BadInput",
    "BrokerRefused",
    "BusClosed",
    "ChannelError",
    "ConnectionEnded",
    "DamagedIndex",
    "DamagedLog",
    "EngineUnknown",
    "ExtensionError",
    "FairleadError",
    "FilterError",
    "FilterSyntaxError",
    "Forbidden",
    "Gone",
    "KafkaFailed",
    "KeyringError",
    "LogClosed",
    "LogFailed",
    "LogFull",
    "LogInUse",
    "NetworkError",
    "NoReply",
    "NobodyListens",
    "NotAcknowledged",
    "NotAdmitted",
    "NotAdvertised",
    "NotAuthenticated",
    "NotInstalled",
    "PipelineError",
    "PolicyError",
    "ProtocolError",
    "QualityRefused",
    "RequestRefused",
    "ScenarioError",
    "SchemaError",
    "ScopeError",
    "ScopeSyntaxError",
    "SealBroken",
    "SimulationFailed",
    "SparkUnavailable",
    "SubscriptionEnded",
    "SubscriptionRefused",
    "TopologyRefused",
    "TraceRefused",
    "TransactionRefused",
    "TranslationRefused",
    "Undecided",
    "ValueRefused",
]


class FairleadError(Exception):
    """The root of all errors that Fairlead raises; `hint`, if any, suggests what to do."""

    hint: str | None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\n  hint: {hint}")
        self.hint = hint


class FilterError(FairleadError, ValueError):
    """A filter that can be read but that no notification could sensibly be tested with."""


class FilterSyntaxError(FairleadError, ValueError):
    """The text of a filter cannot be read."""

    def __init__(
        self,
        message: str,
        *,
        line: int = 1,
        column: int = 1,
        expected: tuple[str, ...] = (),
        source: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line, self.column, self.expected, self.source = line, column, expected, source

    @classmethod
    def at(
        cls,
        source: str,
        offset: int,
        problem: str,
        *,
        expected: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> Self:
        """The error for the character at `offset`, with the line and a caret below it."""
        line = source.count("\n", 0, offset) + 1
        start = source.rfind("\n", 0, offset) + 1
        column = offset - start + 1
        end = source.find("\n", offset)
        shown, caret = _window(source[start : end if end >= 0 else len(source)], column)
        wanted = f"; expected {_listed(expected)}" if expected else ""
        message = f"line {line}, column {column}: {problem}{wanted}\n  {shown}\n  {' ' * (caret - 1)}^"
        return cls(message, line=line, column=column, expected=expected, source=source, hint=hint)


class ScopeError(FairleadError, ValueError):
    """A scope graph that cannot be: a cycle, an unknown name, a selection that cannot be resolved."""


class ScopeSyntaxError(FilterSyntaxError):
    """The text of a scope graph cannot be read."""


class TranslationRefused(FilterSyntaxError):
    """A text of another language of filters cannot be read, or says something that no filter of ours says.

    The message names the construct and its location: line and column, or, in a document, the path to it.
    """

    @classmethod
    def within(cls, path: str, problem: str, *, hint: str | None = None) -> TranslationRefused:
        """The error for a part of a document, by the path to it."""
        return cls(f"at {path}: {problem}", hint=hint)


class NotAdmitted(ScopeError):
    """A scope does not admit a component: its ADMIT condition does not hold for it."""


class PolicyError(FairleadError, ValueError):
    """An access policy that contradicts itself or cannot be read."""


class KeyringError(FairleadError, ValueError):
    """A key that is not there, or a file of keys that cannot be read. It never has a key in its text."""


class SealBroken(FairleadError, ValueError):
    """A sealed attribute or a share of a key that was changed, moved, or sealed with a key of the past."""


class NotAuthenticated(FairleadError, PermissionError):
    """Credentials that a broker does not accept: expired, of another audience, wrong."""


class Forbidden(FairleadError, PermissionError):
    """The access policy does not let a principal do that."""


class SchemaError(FairleadError, ValueError):
    """A schema that contradicts itself or cannot be read."""


class ValueRefused(FairleadError, ValueError):
    """A value that a notification cannot hold."""


class ExtensionError(FairleadError, ValueError):
    """An extension that cannot be registered or loaded."""


class DamagedIndex(FairleadError, ValueError):
    """A file that is no index of filters, was written by another version, or is not whole."""


class DamagedLog(FairleadError, ValueError):
    """A file that is no segment of a log, that a newer version wrote, or whose synced records are damaged."""

    def __init__(
        self, message: str, *, path: str = "", offset: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.path, self.offset = path, offset

    @classmethod
    def at(cls, path: str, position: int, offset: int, problem: str) -> DamagedLog:
        """The error for the record `offset`, which should be at the byte `position` of a file."""
        message = f"{path}: the record {offset} at byte {position} {problem}, though it had been synced"
        return cls(message, path=path, offset=offset, hint="the disk or a copy is at fault: restore the file")


class Gone(FairleadError, LookupError):
    """Records that were to be read have left the log; `first` is the offset that reading can start from."""

    def __init__(self, offset: int, first: int) -> None:
        super().__init__(f"the record {offset} has left the log; the first that is there is {first}")
        self.offset, self.first = offset, first

    def __reduce__(self) -> tuple[type[Gone], tuple[int, int]]:
        return Gone, (self.offset, self.first)


class LogClosed(FairleadError, RuntimeError):
    """A call to a closed log."""


class LogFailed(FairleadError, OSError):
    """A write or an fsync failed: the content of the disk is unknown, and the writer has stopped."""


class LogFull(FairleadError, OSError):
    """There is no room for the appended records; the log is as valid as before, and continues once there is."""


class LogInUse(FairleadError, RuntimeError):
    """A log that another writer has open."""


class ProtocolError(FairleadError, ValueError):
    """Bytes that are none of the network's frames, or a message that does not belong there."""


class NetworkError(FairleadError, ValueError):
    """A broker, or a network of them, that cannot be run with its file, or an invalid address."""


class BrokerRefused(FairleadError, RuntimeError):
    """A broker refused a request; the message is its reason."""


class AccessRefused(BrokerRefused):
    """The access policy of a broker does not let a client do that."""


class NotThere(BrokerRefused):
    """The object of a request to a broker does not exist."""


class NotAcknowledged(FairleadError, TimeoutError):
    """A durable subscription is in effect, but not at all brokers yet: some are away."""


class ConnectionEnded(FairleadError, ConnectionError):
    """A broker cannot be reached, or has ended the connection."""


class BusClosed(FairleadError, RuntimeError):
    """A call to a closed bus."""


class NotAdvertised(FairleadError, ValueError):
    """None of the producer's advertisements matches the publication; it is not delivered."""


class RequestRefused(FairleadError, RuntimeError):
    """A request that could never be answered."""


class NobodyListens(FairleadError, LookupError):
    """A request that no subscription matches."""


class NoReply(FairleadError, TimeoutError):
    """A request that nobody replied to in time."""


class SubscriptionEnded(FairleadError, RuntimeError):
    """A subscription is closed, and all that was delivered to it has been read."""


class TransactionRefused(FairleadError, RuntimeError):
    """A transaction that is over, or one of whose notifications is refused: none of them is published."""


class ChannelError(FairleadError, ValueError):
    """Channels that cannot be: one that is never used, a name that is taken twice."""


class QualityRefused(FairleadError, ValueError):
    """A subscription that requires a better quality of service than the channels of its filter offer."""


class SubscriptionRefused(FairleadError, ValueError):
    """A subscription that contradicts another one."""


class ScenarioError(FairleadError, ValueError):
    """A scenario that cannot be simulated with its file."""


class SimulationFailed(FairleadError, RuntimeError):
    """A simulated run that violated an invariant or delivered wrongly; the hint has the command that
    repeats it."""


class TopologyRefused(FairleadError, ValueError):
    """An impossible overlay of brokers, or a query about a broker that it does not have."""


class TraceRefused(FairleadError, ValueError):
    """A sequence of events that no run can have."""


class PipelineError(FairleadError, ValueError):
    """A pipeline that cannot be run: because of its configuration, its input or its output."""


class SparkUnavailable(FairleadError, RuntimeError):
    """Spark cannot be started or reached: a part is missing, or the address is wrong."""


class KafkaFailed(FairleadError, RuntimeError):
    """Kafka or a schema registry cannot be reached, or refuses something."""


class BadInput(FairleadError):
    """Input that a command cannot use, and its location."""


class EngineUnknown(FairleadError, LookupError):
    """No engine has this name."""

    @classmethod
    def named(cls, name: str, known: Iterable[str]) -> EngineUnknown:
        return cls(f"no matching engine is named {name!r}", hint=f"there is {', '.join(sorted(known))}")


class NotInstalled(FairleadError, ImportError):
    """A feature whose libraries come with an extra that is not installed."""

    @classmethod
    def extra(cls, feature: str, extra: str) -> NotInstalled:
        return cls(f"{feature} is not installed", hint=f"pip install 'fairlead[{extra}]'")


class Undecided(FairleadError, RuntimeError):
    """A relation that was not settled within its budget."""


_WINDOW = 100


def _window(line: str, column: int) -> tuple[str, int]:
    """At most `_WINDOW` characters of a long line around a column, and the column within them."""
    if len(line) <= _WINDOW:
        return line, column
    start = max(0, min(column - 1 - _WINDOW // 2, len(line) - _WINDOW))
    return line[start : start + _WINDOW], column - start


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
