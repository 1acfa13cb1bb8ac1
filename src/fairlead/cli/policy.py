"""`fairlead policy`: check an access policy, set passwords, delegate rights, show the decisions of brokers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sized
from getpass import getpass
from typing import TYPE_CHECKING, Any

from fairlead.cli.connecting import add_connection_options, connected, now
from fairlead.cli.terminal import emit_json, note, paint, say
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.security import AccessPolicy, Decision, Rights

__all__ = ["configure"]

COLOURS = {"granted": "green", "narrowed": "yellow", "refused": "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = "Check an access policy: who may publish, subscribe to and advertise what."
    parser.epilog = "Example: fairlead policy check policy.toml --as ada --subscribe 'price > 100'"
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="check a policy's file, or what it lets a principal do")
    check.description = (
        "Check the file of an access policy: all that is wrong with it, and what is hardly meant. With --as, show"
        " the active roles of a principal; with a request, the decision about it. With --broker, show what a"
        " broker is trusted with, of a request if there is one."
    )
    check.epilog = (
        "Example: fairlead policy check policy.toml --as ada --subscribe 'price > 100'. "
        "Exit code: 0 granted or narrowed, 1 refused, 2 where the file is wrong."
    )
    check.add_argument("file", metavar="FILE", help="the policy (TOML)")
    check.add_argument("--as", dest="principal", metavar="NAME", help="the principal")
    check.add_argument(
        "--claim", metavar="NAME=VALUE", action="append", default=[], help="what its token says (repeatable)"
    )
    check.add_argument("--via", choices=("certificate", "token", "password"), default="token")
    request = check.add_mutually_exclusive_group()
    for action in ("subscribe", "publish", "advertise"):
        request.add_argument(f"--{action}", metavar="FILTER", help=f"may it {action} this?")
    request.add_argument("--declare", metavar="TYPE", help="may it declare this type?")
    request.add_argument("--administer", metavar="STATEMENTS", help="may it change the scope graph so?")
    check.add_argument("--broker", metavar="NAME", help="the broker: what does it handle of a request?")
    check.add_argument("--schema", metavar="FILE", help="the schema that brokers read filters with")
    check.add_argument("--json", action="store_true", help="answer in JSON")
    check.set_defaults(run=_check)
    password = actions.add_parser("password", help="set the password of a principal in a file")
    password.description = (
        "Set the password of a principal in the file of [security] passwords, hashed with scrypt. The password is"
        " read from the terminal, or from the first line of standard input."
    )
    password.epilog = "Example: fairlead policy password passwords ada"
    password.add_argument("file", metavar="FILE", help="the file of passwords; it is made if there is none")
    password.add_argument("principal", metavar="NAME", help="the principal")
    password.add_argument("--remove", action="store_true", help="the principal has no password any longer")
    password.set_defaults(run=_password)
    _add_delegations(actions)
    _add_types(actions)
    log = actions.add_parser("log", help="show the decisions that a broker has recorded")
    log.description = "Show the file of [security] log: who requested what, what was granted, and why not."
    log.epilog = "Example: fairlead policy log access.jsonl --outcome refused --follow"
    log.add_argument("file", metavar="FILE")
    log.add_argument("--principal", metavar="NAME", help="only those of one principal")
    log.add_argument("--outcome", choices=tuple(COLOURS), help="only those")
    log.add_argument("-f", "--follow", action="store_true", help="go on as decisions are recorded")
    log.add_argument("--json", action="store_true", help="lines of JSON, as they are in the file")
    log.set_defaults(run=_log)


def _add_delegations(actions: Any) -> None:
    delegate = actions.add_parser("delegate", help="give another principal a part of one's rights")
    delegate.description = (
        "Give another principal a part of what one may do, by roles that let one delegate. What takes effect is"
        " never more than the giver may do at the time. The answer is the id of the delegation."
    )
    delegate.epilog = (
        "Example: fairlead policy delegate bob --subscribe 'price > 1' --until 2027-01-01T00:00:00Z"
    )
    delegate.add_argument("to", metavar="NAME", help="the principal who gets it")
    for action in ("subscribe", "publish", "advertise"):
        delegate.add_argument(
            f"--{action}",
            metavar="FILTER",
            action="append",
            default=[],
            help=f"what to {action} (repeatable)",
        )
    delegate.add_argument("--until", metavar="INSTANT", help="when it ends (default: when it is revoked)")
    add_connection_options(delegate)
    delegate.set_defaults(run=_delegate)
    undelegate = actions.add_parser("undelegate", help="end a delegation")
    undelegate.description = "End a delegation, at once. That of another giver takes the right to manage."
    undelegate.epilog = "Example: fairlead policy undelegate 5f0c1b2a3d4e5f60 --user ada"
    undelegate.add_argument("id", metavar="ID", help="as `fairlead policy delegate` answered")
    undelegate.add_argument("--by", metavar="NAME", default="", help="the giver (default: oneself)")
    add_connection_options(undelegate)
    undelegate.set_defaults(run=_undelegate)


def _add_types(actions: Any) -> None:
    declare = actions.add_parser("type", help="declare a type, which one then owns, or alter it")
    declare.description = (
        "Declare a type, which one then owns, or alter one's own, at all brokers of the network: what others may"
        " do with it, as `[types.NAME]` of a policy says it, and what form its notifications have. What is not"
        " given, it does not have any longer."
    )
    declare.epilog = "Example: fairlead policy type Quote --subscribe 'delay > 15' --form 'exists symbol'"
    declare.add_argument("name", metavar="NAME", help="the type")
    for name, means in (
        ("subscribe", "of this type, others get what one of these matches (default: what their roles grant)"),
        ("publish", "of this type, others publish what one of these matches (default: nothing)"),
        ("form", "whoever publishes it: one of these matches it (default: any)"),
    ):
        declare.add_argument(f"--{name}", metavar="FILTER", action="append", default=[], help=means)
    declare.add_argument("--remove", action="store_true", help="declare it no longer")
    add_connection_options(declare)
    declare.set_defaults(run=_declare)
    types = actions.add_parser("types", help="show the types that principals have declared")
    types.description = "Show the types that principals have declared. It takes the right to inspect."
    types.epilog = "Example: fairlead policy types --broker :7400"
    types.add_argument("--json", action="store_true", help="answer in JSON")
    add_connection_options(types)
    types.set_defaults(run=_types)


def _delegate(arguments: argparse.Namespace) -> int:
    filters = {action: getattr(arguments, action) for action in ("subscribe", "publish", "advertise")}
    if not any(filters.values()):
        raise BadInput("what is delegated? --subscribe, --publish or --advertise says")
    with connected(arguments) as client:
        say(client.delegate(arguments.to, **filters, until=arguments.until))
    return 0


def _undelegate(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        client.undelegate(arguments.id, by=arguments.by)
    note(f"the delegation {arguments.id} has ended")
    return 0


def _declare(arguments: argparse.Namespace) -> int:
    filters = {name: getattr(arguments, name) for name in ("subscribe", "publish", "form")}
    if arguments.remove and any(filters.values()):
        raise BadInput("a type that is removed has no filters")
    with connected(arguments) as client:
        if arguments.remove:
            client.remove_type(arguments.name)
        else:
            client.declare_type(arguments.name, **filters)
    note(f"the type {arguments.name} is {'removed' if arguments.remove else 'declared'}")
    return 0


def _types(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        types = client.types()
    if arguments.json:
        emit_json(types)
        return 0
    for each in types:
        filters = {"subscribe": each["subscribe"], "publish": each["publish"], "form": each["form"]}
        shown = "".join(f"  {name}: {' | '.join(texts)}" for name, texts in filters.items() if texts)
        say(f"{each['name']}  {each['owner']}{shown}")
    if not types:
        note("no types are declared")
    return 0


def _password(arguments: argparse.Namespace) -> int:
    from fairlead.security.passwords import write_entry

    password = None
    if not arguments.remove:
        if sys.stdin.isatty():
            password = getpass(f"password of {arguments.principal}: ")
            if getpass("once more: ") != password:
                raise BadInput("these are two passwords")
        else:
            password = sys.stdin.readline().rstrip("\n")
        if not password:
            raise BadInput("a password is not empty")
    write_entry(arguments.file, arguments.principal, password)
    note(f"{arguments.principal} has {'no' if password is None else 'a'} password in {arguments.file}")
    return 0


def _log(arguments: argparse.Namespace) -> int:
    from fairlead.security.records import decisions

    for each in decisions(arguments.file, follow=arguments.follow):
        if arguments.principal not in (None, each.get("principal")):
            continue
        if arguments.outcome not in (None, each.get("outcome")):
            continue
        if arguments.json:
            emit_json(each)
        else:
            say(_line(each))
        sys.stdout.flush()
    return 0


def _line(each: dict[str, Any]) -> str:
    """A decision in words."""
    if "principal" not in each:
        return f"{each['time']}  {each['action']} of the policy {each['policy']}"
    outcome, requested, granted = each["outcome"], each["requested"], each["granted"]
    if "publications" in each:
        number = each["publications"]
        granted = f"{paint(outcome, COLOURS[outcome])}: {number:,} publication{'' if number == 1 else 's'}"
        return f"{each['time']}  {each['principal']}  {each['action']}  {granted}"
    what = (
        "" if requested is None else f" to {requested}" if each["action"] == "subscribe" else f" {requested}"
    )
    details = {"granted": "", "narrowed": f": {granted}", "refused": f": {each['reason']}"}[outcome]
    times = f" (and {each['repeated']:,} more)" if each.get("repeated") else ""
    who, painted = f"{each['time']}  {each['principal']}", paint(outcome, COLOURS[outcome])
    return f"{who}  {each['action']}{what}  {painted}{details}{times}"


def _check(arguments: argparse.Namespace) -> int:
    from fairlead.filters.language import parse
    from fairlead.filters.schema import Schema
    from fairlead.security import ACTIONS, AccessPolicy

    schema = None if arguments.schema is None else Schema.read(arguments.schema)
    policy = AccessPolicy.read(arguments.file, schema)
    if arguments.broker is not None:
        return _show_trust(policy, arguments)
    if arguments.principal is None:
        return _summary(policy, arguments)
    rights = policy.rights(_principal(arguments), now().microseconds)
    if arguments.administer is not None:
        return _show_change(rights, arguments)
    if arguments.declare is not None:
        return _show_declaration(policy, arguments)
    for action in ACTIONS:
        if (text := getattr(arguments, action)) is not None:
            return _show(rights.may(action, parse(text, schema)), arguments)
    return _show_rights(rights, arguments)


def _principal(arguments: argparse.Namespace) -> Any:
    from fairlead.security import ANONYMOUS, Principal

    claims: dict[str, Any] = {}
    for each in arguments.claim:
        name, equals, value = each.partition("=")
        if not equals:
            raise BadInput(f"--claim {each}: a name and a value were expected", hint="--claim groups=traders")
        claims.setdefault(name, []).append(value)
    given = {name: values[0] if len(values) == 1 else values for name, values in claims.items()}
    via = "none" if arguments.principal == ANONYMOUS else arguments.via
    return Principal(arguments.principal, given, via)


def _summary(policy: AccessPolicy, arguments: argparse.Namespace) -> int:
    warnings = policy.warnings()
    if arguments.json:
        emit_json(
            {
                "roles": [role.name for role in policy.roles],
                "delegations": len(policy.delegations),
                "revoked": sorted(policy.revoked),
                "brokers": list(policy.trust.handles),
                "fingerprint": policy.fingerprint,
                "warnings": warnings,
            }
        )
        return 0
    for each in warnings:
        say(paint(f"warning: {each}", "yellow"))
    counts: dict[str, Sized] = {
        "role": policy.roles,
        "delegation": policy.delegations,
        "revocation": policy.revoked,
    }
    if policy.types:
        counts["owned type"] = policy.types
    if policy.trust.handles:
        counts["broker"] = policy.trust.handles
    say(", ".join(f"{len(each):,} {noun}{'' if len(each) == 1 else 's'}" for noun, each in counts.items()))
    return 0


def _show_trust(policy: AccessPolicy, arguments: argparse.Namespace) -> int:
    """The part of a request, or of everything, that a broker handles."""
    from fairlead.filters import EVERYTHING, NOTHING, parse
    from fairlead.security import ACTIONS, Decision

    texts = ((action, getattr(arguments, action)) for action in ACTIONS)
    action, text = next(((action, text) for action, text in texts if text is not None), ("handle", None))
    requested = EVERYTHING if text is None else parse(text, policy.schema)
    part = policy.trust.part(arguments.broker, requested)
    if part == NOTHING:
        reason = f"the broker {arguments.broker} is not trusted with that"
        return _show(Decision(action, "refused", requested, None, (), reason), arguments)
    outcome: Any = "granted" if part == requested else "narrowed"
    return _show(Decision(action, outcome, requested, part), arguments)


def _show(decision: Decision, arguments: argparse.Namespace) -> int:
    granted = None if decision.granted is None else str(decision.granted)
    if arguments.json:
        emit_json(
            {
                "action": decision.action,
                "outcome": decision.outcome,
                "granted": granted,
                "roles": list(decision.roles),
                "reason": decision.reason,
            }
        )
    else:
        by = f" (by {', '.join(decision.roles)})" if decision.roles else ""
        details = {"granted": by, "narrowed": f" to {granted}{by}", "refused": f": {decision.reason}"}
        outcome = decision.outcome
        say(f"{paint(outcome, COLOURS[outcome])}{details[outcome]}")
    return 1 if decision.is_refused else 0


def _show_change(rights: Rights, arguments: argparse.Namespace) -> int:
    """Whether a principal may make a change of the scope graph."""
    from fairlead.model import Notification
    from fairlead.rules.administration import CHANGE, refuse_change
    from fairlead.rules.integrated import CHANGES
    from fairlead.scopes import parse_statements
    from fairlead.security import Decision

    parse_statements(arguments.administer)  # what is wrong with them is said as of any text
    given = {"producer": CHANGES, "id": "1", "type": CHANGE, "text": arguments.administer}
    refusal = refuse_change(rights, Notification.of(given))
    if refusal is None:
        return _show(Decision("administer", "granted", None, None), arguments)
    return _show(Decision("administer", "refused", None, None, (), refusal.reason), arguments)


def _show_declaration(policy: AccessPolicy, arguments: argparse.Namespace) -> int:
    """Whether a principal may declare a type."""
    from fairlead.security import Decision
    from fairlead.security.types import DeclaredType

    principal = _principal(arguments)
    type = DeclaredType(arguments.declare, principal.name).owned(policy.schema)
    if policy.may_declare(principal, type, now().microseconds):
        return _show(Decision("declare", "granted", None, None), arguments)
    reason = f"{principal.name} may not declare the type {arguments.declare!r}"
    return _show(Decision("declare", "refused", None, None, (), reason), arguments)


def _show_rights(rights: Rights, arguments: argparse.Namespace) -> int:
    if arguments.json:
        emit_json(
            {
                "principal": rights.principal.name,
                "roles": list(rights.roles),
                "allowed": sorted(rights.allowed),
                "grants": {
                    action: [{"role": each.role, "filter": str(each.filter)} for each in grants]
                    for action, grants in rights.grants.items()
                },
                "names": {kind: list(patterns) for kind, patterns in rights.names.items()},
            }
        )
        return 0 if rights.roles else 1
    say(f"roles: {', '.join(rights.roles) or 'none'}")
    say(f"allowed: {', '.join(sorted(rights.allowed)) or 'nothing'}")
    for action, grants in rights.grants.items():
        for each in grants:
            say(f"{action}: {each.filter} (by {each.role})")
    for kind, patterns in rights.names.items():
        if patterns:
            say(f"{kind}: {', '.join(patterns)}")
    return 0 if rights.roles else 1
