"""`fairlead keys`: the keys of sealed attributes: rotate them, share them with members, take one's share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.cli.connecting import (
    add_connection_options,
    add_sealing_options,
    connected,
    now,
    sealer_of,
    seconds,
)
from fairlead.cli.terminal import emit_json, note, say
from fairlead.errors import BadInput, FairleadError, SealBroken

if TYPE_CHECKING:
    from fairlead.security.sealing import Keyring, Sealer

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = "The keys of sealed attributes, by class and epoch: see docs/security.md."
    parser.epilog = "Example: fairlead keys rotate authority.keys police"
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    rotate = actions.add_parser("rotate", help="begin a new epoch of key classes, with new keys")
    rotate.description = (
        "Begin a new epoch of each class, with a new key; the first one where the class is new. The file is made"
        " if there is none. Members that are not given the new key read nothing that is sealed from then on."
    )
    rotate.epilog = "Example: fairlead keys rotate authority.keys police fire"
    rotate.add_argument("ring", metavar="KEYRING", help="the file of keys")
    rotate.add_argument("classes", metavar="CLASS", nargs="+", help="a key class")
    rotate.set_defaults(run=_rotate)
    show = actions.add_parser("show", help="list the keys of a keyring, without the keys themselves")
    show.description = "List the classes and epochs of a keyring, and since when they hold."
    show.epilog = "Example: fairlead keys show authority.keys"
    show.add_argument("ring", metavar="KEYRING")
    show.add_argument("--json", action="store_true", help="lines of JSON")
    show.set_defaults(run=_show)
    identity = actions.add_parser("identity", help="make an identity, or print its public key")
    identity.description = (
        "Print the public key of an identity, which others need to share keys with it; the file with its private"
        " keys is made if there is none."
    )
    identity.epilog = "Example: fairlead keys identity ada.identity"
    identity.add_argument("file", metavar="FILE")
    identity.set_defaults(run=_identity)
    share = actions.add_parser("share", help="publish the last key of each class for its members")
    share.description = (
        "Publish the last key of each class of the policy, encrypted for each of its members and signed. Brokers"
        " see who is a member of which class, and no key."
    )
    share.epilog = (
        "Example: fairlead keys share authority.keys --policy policy.toml --publics publics.toml"
        " --identity authority.identity"
    )
    share.add_argument("ring", metavar="KEYRING")
    share.add_argument(
        "--policy", metavar="FILE", required=True, help="the policy, with [keys.CLASS] members"
    )
    share.add_argument(
        "--publics", metavar="FILE", required=True, help='public keys by member: name = "…" (TOML)'
    )
    share.add_argument("--identity", metavar="FILE", required=True, help="who signs the shares")
    add_connection_options(share)
    share.set_defaults(run=_share)
    _configure_use(actions)
    take = actions.add_parser("take", help="add the keys that were shared with a member to its keyring")
    take.description = (
        "Add the keys that are shared with a member to its keyring, from now on or also from the broker's log."
        " Shares that the giver has not signed are refused."
    )
    take.epilog = (
        "Example: fairlead keys take ada.keys --member ada --identity ada.identity --giver KEY --past"
    )
    take.add_argument("ring", metavar="KEYRING", help="the file of keys; it is made if there is none")
    take.add_argument("--member", metavar="NAME", required=True, help="the member")
    take.add_argument("--identity", metavar="FILE", required=True, help="its identity")
    take.add_argument("--giver", metavar="KEY", required=True, help="the public key of the one who shares")
    take.add_argument("--past", action="store_true", help="also those that are in the broker's log")
    take.add_argument(
        "--count", type=int, default=1, help="end when so many new keys have been taken (default: 1)"
    )
    take.add_argument(
        "--timeout", type=seconds, default=10.0, metavar="D", help="give up after so long without a share"
    )
    add_connection_options(take)
    take.set_defaults(run=_take)


def _configure_use(actions: Any) -> None:
    """The actions that use keys where there is no broker: for the files of pipelines."""
    seal = actions.add_parser("seal", help="seal the attributes of events")
    seal.description = (
        "Seal the attributes of events that the policy names: lines of JSON from standard input to standard"
        " output. Each needs an id and a producer, which its values are bound to."
    )
    seal.epilog = "Example: fairlead keys seal --sealed policy.toml --keys ada.keys < events.jsonl"
    seal.set_defaults(run=_seal)
    filter = actions.add_parser("filter", help="seal the predicates of a filter")
    filter.description = (
        "Print a filter whose predicates on sealed attributes are sealed. It matches whatever the filter matches,"
        " and where the keys are not there, perhaps more: `fairlead keys open` decides."
    )
    filter.epilog = (
        "Example: fairlead keys filter --sealed policy.toml --keys ada.keys 'location = \"Elm Street\"'"
    )
    filter.add_argument("filter", metavar="FILTER")
    filter.set_defaults(run=_filter)
    opened = actions.add_parser("open", help="open the attributes of events, or of deliveries")
    opened.description = (
        "Open all attributes that the keys open, and leave out the others: lines of JSON from standard input to"
        " standard output, events or deliveries of a pipeline."
    )
    opened.epilog = "Example: fairlead keys open --sealed policy.toml --keys ada.keys < part-00000.jsonl"
    opened.add_argument("--matching", metavar="FILTER", help="those only that it matches when they are open")
    opened.set_defaults(run=_open)
    for each in (seal, filter, opened):
        add_sealing_options(each)


def _sealer(arguments: argparse.Namespace) -> Sealer:
    sealer = sealer_of(arguments)
    if sealer is None:
        raise BadInput("a policy and a keyring are needed", hint="--sealed policy.toml --keys ada.keys")
    return sealer


def _lines() -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects on standard input, with the numbers of their lines."""
    from fairlead.model.encoding import parse_json

    for number, line in enumerate(sys.stdin, start=1):
        if line.strip():
            given = parse_json(line)
            if not isinstance(given, dict):
                raise BadInput(f"line {number}: an object was expected")
            yield number, given


def _seal(arguments: argparse.Namespace) -> int:
    from fairlead.ingest.records import notification_of

    sealer = _sealer(arguments)
    for number, given in _lines():
        try:
            say(sealer.seal(notification_of(given)).to_json())
        except FairleadError as error:
            raise BadInput(f"line {number}: {error}") from None
    return 0


def _filter(arguments: argparse.Namespace) -> int:
    from fairlead.filters.language import render

    say(render(_sealer(arguments).filter(arguments.filter)))
    return 0


def _open(arguments: argparse.Namespace) -> int:
    from fairlead.filters import EVERYTHING, parse
    from fairlead.ingest.records import notification_of

    sealer = _sealer(arguments)
    wanted = EVERYTHING if arguments.matching is None else parse(arguments.matching)
    broken = 0
    for number, given in _lines():
        delivered = isinstance(given.get("notification"), dict) and "subscriptions" in given
        try:
            read = sealer.read(wanted, notification_of(given["notification"] if delivered else given))
        except SealBroken as error:
            broken += 1
            note(f"line {number}: refused: {error}")
            continue
        if read is not None:
            content = read.content
            emit_json({**given, "notification": content} if delivered else content)
    return 1 if broken else 0


def _ring(path: str, *, make: bool = False) -> Keyring:
    from fairlead.security.sealing import Keyring

    return Keyring() if make and not Path(path).exists() else Keyring.read(path)


def _rotate(arguments: argparse.Namespace) -> int:
    ring = _ring(arguments.ring, make=True)
    epochs = [ring.rotate(name, now().microseconds) for name in arguments.classes]
    ring.write(arguments.ring)
    note(f"{arguments.ring}: {', '.join(f'{name}:{number}' for name, number in epochs)}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from fairlead.model import Instant

    ring = _ring(arguments.ring)
    for epoch in ring:
        since = str(Instant(ring.since(epoch) or 0))
        if arguments.json:
            emit_json({"class": epoch[0], "epoch": epoch[1], "since": since})
        else:
            say(f"{epoch[0]}:{epoch[1]}  since {since}")
    return 0


def _identity(arguments: argparse.Namespace) -> int:
    from fairlead.security.sealing import Identity

    if Path(arguments.file).exists():
        made = Identity.read(arguments.file)
    else:
        made = Identity.new()
        made.write(arguments.file)
    say(made.public)
    return 0


def _share(arguments: argparse.Namespace) -> int:
    from fairlead.configuration import read_toml
    from fairlead.errors import PolicyError
    from fairlead.security import AccessPolicy
    from fairlead.security.sealing import Identity, shares

    policy = AccessPolicy.read(arguments.policy)
    if not policy.keys:
        raise BadInput(f"{arguments.policy}: there is no [keys.CLASS]")
    publics: dict[str, Any] = dict(read_toml(arguments.publics, PolicyError, 'ada = "…"'))
    members = {name: each.members for name, each in policy.keys.items()}
    records = shares(_ring(arguments.ring), members, publics, Identity.read(arguments.identity))
    with connected(arguments) as client:
        for each in records:
            client.publish(each)
    note(f"{len(records):,} shares published")
    return 0


def _take(arguments: argparse.Namespace) -> int:
    from fairlead.security.sealing import Identity, take_share
    from fairlead.security.sealing.sharing import shares_for

    ring, identity = _ring(arguments.ring, make=True), Identity.read(arguments.identity)
    taken = 0
    with connected(arguments) as client:
        since = 0 if arguments.past else None
        with client.subscribe(shares_for(arguments.member), since=since) as received:
            while taken < arguments.count:
                try:
                    share = received.get(arguments.timeout)
                except TimeoutError:
                    note(f"no share within {arguments.timeout:g} s")
                    break
                try:
                    if take_share(ring, share, identity, arguments.giver):
                        taken += 1
                        ring.write(arguments.ring)
                        note(f"{arguments.ring}: {share.get('class')}:{share.get('epoch')}")
                except SealBroken as error:
                    note(f"refused: {error}")
    return 0 if taken else 1
