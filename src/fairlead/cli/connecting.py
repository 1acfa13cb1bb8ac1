"""The options of all commands that connect to a broker."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.filters.schema import Schema
    from fairlead.model import Instant
    from fairlead.network.addresses import Tls
    from fairlead.network.survey import Survey
    from fairlead.network.sync import Client
    from fairlead.security.sealing import Sealer

__all__ = [
    "add_connection_options",
    "add_sealing_options",
    "brokers_of",
    "connected",
    "credentials_of",
    "now",
    "sealer_of",
    "seconds",
    "surveyed",
    "tls_of",
]


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """The options for the broker's address and its TLS."""
    options = parser.add_argument_group("the broker")
    options.add_argument(
        "-b",
        "--broker",
        metavar="URL",
        dest="brokers",
        action="append",
        help="where it is; repeated, the first that can be reached (default: $FAIRLEAD_BROKER, which may have "
        "several with commas between them, or 127.0.0.1:7400)",
    )
    options.add_argument(
        "--patience",
        metavar="D",
        type=seconds,
        default=5.0,
        help="how long to go on without a broker that cannot be reached, as 10s (default: 5s)",
    )
    options.add_argument("--authority", metavar="FILE", help="TLS: whose certificates are trusted")
    options.add_argument("--certificate", metavar="FILE", help="TLS: the certificate to show")
    options.add_argument("--key", metavar="FILE", help="TLS: its key")
    options.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file with a token that says who you are (default: $FAIRLEAD_TOKEN)",
    )
    options.add_argument(
        "--user", metavar="NAME", help="who you are, with a password: $FAIRLEAD_PASSWORD, or it is asked for"
    )


def add_sealing_options(parser: argparse.ArgumentParser) -> None:
    """The options for attributes that are sealed."""
    options = parser.add_argument_group("sealed attributes")
    options.add_argument(
        "--sealed", metavar="POLICY", help="the policy that says which attributes are sealed"
    )
    options.add_argument("--keys", metavar="KEYRING", help="the keys to seal and to open them with")
    options.add_argument(
        "--signer", metavar="IDENTITY", help="the identity of the producer, where the policy has it sign"
    )


def sealer_of(arguments: argparse.Namespace) -> Sealer | None:
    """Seals and opens with the keys that the options name."""
    sealed, keys = getattr(arguments, "sealed", None), getattr(arguments, "keys", None)
    if sealed is None and keys is None:
        return None
    if sealed is None or keys is None:
        raise BadInput("a policy and a keyring belong together", hint="--sealed policy.toml --keys ada.keys")
    from fairlead.security import AccessPolicy
    from fairlead.security.sealing import Identity, Keyring, Sealer

    policy = AccessPolicy.read(sealed)
    signer = getattr(arguments, "signer", None)
    identity = None if signer is None else Identity.read(signer)
    return Sealer(policy.sealed, Keyring.read(keys), policy.grace_us, identity)


def brokers_of(arguments: argparse.Namespace) -> list[str]:
    """The addresses of brokers, in the order in which they are tried."""
    environment = (os.environ.get("FAIRLEAD_BROKER") or "127.0.0.1:7400").split(",")
    return arguments.brokers or [each.strip() for each in environment if each.strip()]


def seconds(given: str) -> float:
    """A duration such as 10s, or a number of seconds."""
    from fairlead.errors import FairleadError
    from fairlead.model.durations import duration_of

    try:
        found = float(given)
    except ValueError:
        try:
            found = duration_of(given) / 1e6
        except FairleadError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"not so long: {given}")
    return found


def tls_of(arguments: argparse.Namespace) -> Tls | None:
    """With which certificates the broker is spoken to."""
    from fairlead.network.addresses import Tls

    given = (arguments.certificate, arguments.key, arguments.authority)
    if bool(arguments.certificate) != bool(arguments.key):
        raise BadInput("a certificate is shown with its key", hint="--certificate FILE --key FILE")
    return Tls(*given) if any(given) else None


def credentials_of(arguments: argparse.Namespace) -> str | None:
    """The credentials to show: never given as an argument, which every user of the machine can see."""
    from pathlib import Path

    from fairlead.security.credentials import basic, bearer

    if arguments.user is not None:
        password = os.environ.get("FAIRLEAD_PASSWORD")
        if password is None:
            from getpass import getpass

            password = getpass(f"password of {arguments.user}: ")
        return basic(arguments.user, password)
    if arguments.token_file is not None:
        return bearer(Path(arguments.token_file).read_text(encoding="utf-8"))
    token = os.environ.get("FAIRLEAD_TOKEN")
    return None if token is None else bearer(token)


def now() -> Instant:
    """The time that it is."""
    from fairlead.model import Instant

    return Instant(time.time_ns() // 1_000)


def connected(
    arguments: argparse.Namespace,
    name: str | None = None,
    *,
    policy: str = "",
    clock: Callable[[], Instant] | None = None,
    schema: Schema | None = None,
) -> Client:
    """A client of the broker that the options name; it connects when it is entered."""
    from fairlead.network import sync

    return sync.connect(
        brokers_of(arguments),
        name=name,
        policy=policy,
        tls=tls_of(arguments),
        patience=arguments.patience,
        clock=clock,
        credentials=credentials_of(arguments),
        sealer=sealer_of(arguments),
        schema=schema,
    )


def surveyed(arguments: argparse.Namespace, *, whole: bool = True, tables: bool = False) -> Survey:
    """The network of the broker that the options name."""
    from fairlead.network.survey import survey

    return survey(
        brokers_of(arguments),
        whole=whole,
        tables=tables,
        tls=tls_of(arguments),
        patience=arguments.patience,
        credentials=credentials_of(arguments),
    )
