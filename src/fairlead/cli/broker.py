"""`fairlead broker`: run a broker, or check the file that one is run with."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlead.cli.connecting import add_connection_options, connected, now, seconds
from fairlead.cli.inputs import add_language_options
from fairlead.cli.terminal import emit_json, note, paint, say
from fairlead.errors import BadInput, NotInstalled

if TYPE_CHECKING:
    from fairlead.channels import Channels
    from fairlead.console.serving import Serving
    from fairlead.mqtt.serving import Serving as MqttServing
    from fairlead.network.server import Server
    from fairlead.network.settings import Address, BrokerSettings

__all__ = ["configure", "remark_on", "show_settings"]

OPERATOR: Final = "operator"
"""A broker that is drained takes clients of this name."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Run a broker: clients publish and subscribe there, other brokers are linked with it."
    )
    parser.epilog = "Example: fairlead broker run --name hub --listen :7400 --data hub-data"
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    run = actions.add_parser("run", help="run a broker until it is interrupted")
    run.description = (
        "Run a broker until it is interrupted (Ctrl-C) or terminated. When it listens it prints where. Options go"
        " before what the file says; without a file, one broker needs none of them."
    )
    run.epilog = "Example: fairlead broker run -c broker.toml. Exit code: 0 when it was stopped."
    run.add_argument("-c", "--config", metavar="FILE", help="what it is run with (TOML)")
    run.add_argument(
        "--network", metavar="FILE", help="the file of a network; --name chooses one of its brokers"
    )
    run.add_argument("--name", metavar="NAME", help="what it is called; no two of a network have one name")
    run.add_argument("--listen", metavar="HOST:PORT", help="where it listens (default: 127.0.0.1:7400)")
    where = run.add_mutually_exclusive_group()
    where.add_argument("--data", metavar="DIR", help="the directory of its log (default: fairlead-data)")
    where.add_argument("--memory", action="store_true", help="without a log: nothing is durable")
    run.add_argument(
        "--link", metavar="URL", action="append", default=[], help="a broker to link with (may be repeated)"
    )
    add_language_options(run)
    run.add_argument("--http", metavar="HOST:PORT", help="where it serves HTTP (default: nowhere)")
    run.add_argument("--mqtt", metavar="HOST:PORT", help="where it serves MQTT (default: nowhere)")
    run.add_argument(
        "--spans", metavar="URL", help="the collector that gets OpenTelemetry spans (default: none)"
    )
    run.add_argument(
        "--insecure",
        action="store_true",
        help="to listen beyond this machine without an access policy is meant",
    )
    run.add_argument("--ports", metavar="NAME=PORT", action="append", default=[], help=argparse.SUPPRESS)
    run.add_argument("--stdin", action="store_true", help="stop when standard input ends, too")
    run.add_argument("-v", "--verbose", action="store_true", help="log messages of the level info, too")
    run.add_argument(
        "--log-format", choices=("text", "json"), help="the form of log messages (default: text)"
    )
    run.set_defaults(run=_run)
    check = actions.add_parser("check", help="check a broker's file, and show the settings")
    check.description = (
        "Check the file that a broker is run with: all that is wrong with it, or all that holds."
    )
    check.epilog = "Example: fairlead broker check broker.toml. Exit code: 2 where something is wrong."
    check.add_argument("file", metavar="FILE")
    check.add_argument("--json", action="store_true", help="one JSON object")
    check.set_defaults(run=_check)
    link = actions.add_parser("link", help="have a running broker be linked with another one")
    link.description = (
        "Have a running broker call another one, and stay linked with it. One that is away is waited for, over"
        " restarts, too: `fairlead topology` shows that, and `fairlead broker unlink URL` ends it."
    )
    link.epilog = (
        "Example: fairlead broker link fairlead://hub.example.org:7400 -b :7401. "
        "Exit code: 0 when they are linked, 1 when that has to wait, 2 when it is refused."
    )
    link.add_argument("neighbour", metavar="URL", help="where the other one is")
    add_connection_options(link)
    link.set_defaults(run=_link)
    unlink = actions.add_parser("unlink", help="have a running broker end a link")
    unlink.description = (
        "Have a running broker end the link to a neighbour, with all that waits for it: one that will not be back,"
        " too. Durable subscriptions and the log wait for every neighbour."
    )
    unlink.epilog = "Example: fairlead broker unlink east -b :7400"
    unlink.add_argument(
        "neighbour",
        metavar="NAME",
        help="what the neighbour is called; or the URL of one that has not answered",
    )
    add_connection_options(unlink)
    unlink.set_defaults(run=_unlink)
    _add_operations(actions)
    _add_log_actions(actions)


def _add_operations(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that an operator gives to a running broker."""
    end = actions.add_parser("end", help="end the connection of a client")
    end.description = "End the connection of a client, which does not connect again by itself."
    end.epilog = "Example: fairlead broker end desk-7 -b :7400"
    end.add_argument("client", metavar="NAME", help="what the client is called")
    add_connection_options(end)
    end.set_defaults(run=_end)
    drain = actions.add_parser("drain", help="have clients leave a broker that is to be stopped")
    drain.description = (
        "Have a broker end the connections of its clients, and take no others: those with several addresses go to"
        " another broker. Links stay. /readyz says that the broker is not ready."
    )
    drain.epilog = "Example: fairlead broker drain -b :7400"
    drain.add_argument("--undo", action="store_true", help="take clients again")
    add_connection_options(drain)
    drain.set_defaults(run=_drain)
    trace = actions.add_parser("trace", help="have a broker trace what happens at its interface")
    trace.description = (
        "Have a broker trace the publications, subscriptions and deliveries of its clients, beside its log, until"
        " --off, over restarts. `fairlead audit` judges a network by the traces of all its brokers. With an access"
        " policy, it takes the right to manage."
    )
    trace.epilog = (
        "Example: fairlead broker trace -b :7400 --sample 0.01. Exit code: 2 where the broker cannot."
    )
    trace.add_argument(
        "--sample",
        metavar="P",
        type=float,
        default=1.0,
        help="trace so large a part of all notifications, the same at every broker (default: 1, all)",
    )
    trace.add_argument("--off", action="store_true", help="end the trace")
    add_connection_options(trace)
    trace.set_defaults(run=_trace)
    reload = actions.add_parser("reload", help="have a broker read its certificates, keys and policy anew")
    reload.description = (
        "Have a running broker read its certificates, keys and access policy anew, as SIGHUP does. The policy"
        " holds at once, for the connections and subscriptions that there are, too. If a file is wrong, nothing"
        " changes."
    )
    reload.epilog = "Example: fairlead broker reload -b :7400. Exit code: 2 where a file is wrong."
    add_connection_options(reload)
    reload.set_defaults(run=_reload)
    durables = actions.add_parser("durables", help="show durable subscribers by age and backlog, or end them")
    durables.description = (
        "Show the durable subscribers of a broker, the one with the oldest notification that waits for it first."
        " With --forget, end those that are shown and not connected: the log retains nothing for them any longer."
    )
    durables.epilog = "Example: fairlead broker durables --older 30d --forget"
    durables.add_argument(
        "--older", metavar="D", type=seconds, help="only those with a notification that has waited so long"
    )
    durables.add_argument("--behind", metavar="N", type=int, default=0, help="only those with such a backlog")
    durables.add_argument("--forget", action="store_true", help="end those of them that are not connected")
    durables.add_argument("--json", action="store_true", help="one JSON object for each")
    add_connection_options(durables)
    durables.set_defaults(run=_durables)


def _add_log_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The actions on a broker's log, which need no running broker."""
    backup = actions.add_parser("backup", help="copy a broker's log, also while the broker runs")
    backup.description = (
        "Copy the log of a broker into a new directory. The copy is consistent: it holds every record that was"
        " synced when the command began. The broker may run meanwhile."
    )
    backup.epilog = "Example: fairlead broker backup hub-data backups/hub-2026-03-02"
    backup.add_argument("data", metavar="DATA", help="the directory of the log")
    backup.add_argument("target", metavar="TARGET", help="a new directory")
    backup.set_defaults(run=_backup)
    restore = actions.add_parser("restore", help="make a broker's log of a backup")
    restore.description = (
        "Copy a backup into a new directory, as the log of a broker. Stop the broker that it was made of first."
        " When the restored broker connects, its neighbours and durable subscribers notice that its log has gone"
        " back to the backup, and go on from there."
    )
    restore.epilog = "Example: fairlead broker restore backups/hub-2026-03-02 hub-data"
    restore.add_argument("backup", metavar="BACKUP", help="the directory of the backup")
    restore.add_argument("data", metavar="DATA", help="a new directory")
    restore.set_defaults(run=_restore)
    examine = actions.add_parser("examine", help="examine a broker's log, and save what is whole of it")
    examine.description = (
        "Read every record of a log and say what each segment holds and where it is damaged. With --salvage, write"
        " every whole record into a new log; cursors start anew there."
    )
    examine.epilog = "Example: fairlead broker examine hub-data. Exit code: 1 where the log is damaged."
    examine.add_argument("data", metavar="DATA", help="the directory of the log")
    examine.add_argument("--salvage", metavar="TARGET", help="a new directory for what is whole")
    examine.add_argument("--json", action="store_true", help="one JSON object for each segment")
    examine.set_defaults(run=_examine)


def _run(arguments: argparse.Namespace) -> int:
    from fairlead.network.diagnostics import configure as configure_log
    from fairlead.network.running import serve

    settings = _settings(arguments)
    configure_log(settings.name, settings.log_level, settings.log_format)
    serves = settings.http is not None or settings.mqtt is not None
    serve(settings, _ready, beside=_beside if serves else None, lifeline=arguments.stdin)
    return 0


@asynccontextmanager
async def _beside(server: Server) -> AsyncIterator[list[str]]:
    """A description of all that is served beside the broker's own protocol."""
    async with AsyncExitStack() as stack:
        served = []
        if server.settings.http is not None:
            http = await stack.enter_async_context(_http(server, server.settings.http))
            served.append(f"HTTP at {http.url}")
        if server.settings.mqtt is not None:
            mqtt = await stack.enter_async_context(_mqtt(server, server.settings.mqtt))
            served.append(f"MQTT at {mqtt.url}")
        yield served


def _http(server: Server, address: Address) -> AbstractAsyncContextManager[Serving]:
    try:
        from fairlead.console.serving import serve
    except ModuleNotFoundError:
        raise NotInstalled.extra("HTTP", "console") from None
    return serve(server, address, health=server.settings.health)


def _mqtt(server: Server, address: Address) -> AbstractAsyncContextManager[MqttServing]:
    try:
        from fairlead.mqtt.serving import serve
    except ModuleNotFoundError:
        raise NotInstalled.extra("MQTT", "mqtt") from None
    return serve(server, address)


def _ready(server: Server, served: list[str] | None) -> None:
    kept = "without a log" if server.settings.data is None else f"log in {_near(server.settings.data)}"
    also = "".join(f", {each}" for each in served or ())
    say(f"{server.settings.name} listens at {server.url}{also}, {kept}")
    sys.stdout.flush()


def _near(path: str) -> str:
    """A path as one would write it from here."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _settings(arguments: argparse.Namespace) -> BrokerSettings:
    """The settings of the file, overridden by the options."""
    from fairlead.network.overlay import read_overlay
    from fairlead.network.settings import Address, BrokerSettings, mqtt_address, read_settings

    if arguments.network is not None and arguments.config is not None:
        raise BadInput(
            "a broker is run by its own file or by that of a network", hint="leave out one of both"
        )
    if arguments.network is not None:
        if arguments.name is None:
            raise BadInput("which broker of the network?", hint="--name NAME")
        settings = read_overlay(arguments.network).broker(arguments.name, dict(map(_port, arguments.ports)))
    else:
        settings = BrokerSettings() if arguments.config is None else read_settings(arguments.config)
    for option in ("name", "data"):
        if getattr(arguments, option) is not None and not getattr(arguments, option).strip():
            raise BadInput(f"--{option}: it is empty", hint="leave it out, or say it")
    if arguments.name is not None:
        settings = replace(settings, name=arguments.name)
    if arguments.listen is not None:
        address = Address.parse(arguments.listen)
        settings = replace(settings, listen=address._replace(secure=settings.tls is not None))
    if arguments.memory or arguments.data is not None:
        settings = replace(settings, data=arguments.data)
    if arguments.http is not None:
        settings = replace(settings, http=Address.parse(arguments.http))
    if arguments.spans is not None:
        settings = replace(settings, spans=arguments.spans)
    if arguments.mqtt is not None:
        settings = replace(settings, mqtt=mqtt_address(arguments.mqtt))
    if arguments.verbose and settings.log_level != "debug":
        settings = replace(settings, log_level="info")
    if arguments.log_format is not None:
        settings = replace(settings, log_format=arguments.log_format)
    if arguments.insecure:
        settings = replace(settings, security=replace(settings.security, insecure=True))
    if arguments.schema is not None:
        settings = replace(settings, schema=arguments.schema)
    settings = replace(settings, extensions=(*settings.extensions, *arguments.extension))
    if settings.extensions or settings.hooks:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: an extension may lie where one works
    links = tuple(str(Address.parse(url)) for url in arguments.link)
    return replace(settings, links=(*settings.links, *links))


def _port(given: str) -> tuple[str, int]:
    name, _, port = given.rpartition("=")
    return name, int(port)


def _link(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        made = client.link(arguments.neighbour)
        if made.waits:
            note(f"{client.broker} waits for {made.neighbour or arguments.neighbour}: {made.waits}")
            return 1
        note(f"{client.broker} is linked with {made.neighbour}")
    return 0


def _unlink(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        client.unlink(arguments.neighbour)
        note(f"{client.broker} is not linked with {arguments.neighbour} any longer")
    return 0


def _end(arguments: argparse.Namespace) -> int:
    with connected(arguments, OPERATOR) as client:
        client.end_client(arguments.client)
        note(f"{client.broker} has ended the connection of {arguments.client}")
    return 0


def _drain(arguments: argparse.Namespace) -> int:
    with connected(arguments, OPERATOR) as client:
        ended = client.drain(undo=arguments.undo)
        done = "takes clients" if arguments.undo else f"is drained: {ended:,} connections are ended"
        note(f"{client.broker} {done}")
    return 0


def _reload(arguments: argparse.Namespace) -> int:
    with connected(arguments, OPERATOR) as client:
        client.reload()
        note(f"{client.broker} has read its files anew")
    return 0


def _trace(arguments: argparse.Namespace) -> int:
    with connected(arguments, OPERATOR) as client:
        client.trace(None if arguments.off else arguments.sample)
        note(f"{client.broker} {'traces nothing more' if arguments.off else 'traces what happens'}")
    return 0


def _durables(arguments: argparse.Namespace) -> int:
    from fairlead.model import Instant

    before = (
        "" if arguments.older is None else str(Instant(now().microseconds - round(arguments.older * 1e6)))
    )
    with connected(arguments, OPERATOR) as client:
        for each in client.durables():
            if each["behind"] < arguments.behind or (before and not "" < each["oldest"] <= before):
                continue
            if arguments.json:
                emit_json(each)
            else:
                state = "connected" if each["connected"] else "away"
                since = f", the oldest of {each['oldest']}" if each["oldest"] else ""
                filters = ", ".join(each["filters"])
                say(f"{each['name']}  {state}, {each['behind']:,} behind{since}: {filters}")
            if arguments.forget and not each["connected"]:
                client.forget(each["name"])
                note(f"{each['name']} is ended")
    return 0


# -- the log ---------------------------------------------------------------------------------------------------


def _backup(arguments: argparse.Namespace) -> int:
    from fairlead.log.copies import back_up

    held = back_up(arguments.data, arguments.target)
    note(f"{arguments.target} holds {len(held):,} records, {held.start:,} to {held.stop:,}")
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    from fairlead.log.copies import restore

    held = restore(arguments.backup, arguments.data)
    note(f"{arguments.data} holds {len(held):,} records; run the broker with --data {arguments.data}")
    return 0


def _examine(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from fairlead.log.copies import examine, salvage

    damaged = 0
    for segment in examine(arguments.data):
        damaged += bool(segment.damage)
        if arguments.json:
            emit_json(asdict(segment))
            continue
        verdict = paint(segment.damage, "red") if segment.damage else "whole"
        records = f"records {segment.first:,} to {segment.end:,}"
        say(f"{os.path.basename(segment.path)}  {records}, {segment.size_bytes:,} bytes: {verdict}")
    if arguments.salvage is not None:
        saved, lost = salvage(arguments.data, arguments.salvage)
        note(f"{arguments.salvage} holds {saved:,} records; {lost:,} are lost")
    return 1 if damaged else 0


# -- check ---------------------------------------------------------------------------------------------------


def _check(arguments: argparse.Namespace) -> int:
    from fairlead.network.contexts import server_context
    from fairlead.network.settings import read_settings

    settings = read_settings(arguments.file)
    if settings.tls is not None:
        server_context(settings.tls)
    broker = settings.broker()  # the schema, the extensions, the policy and the scope graph can be read
    show_settings(settings, as_json=arguments.json)
    remark_on(broker.seam.channels)
    return 0


def remark_on(channels: Channels) -> None:
    """Say which channels overlap, with a notification that both match: the first one counts."""
    for first, second, witness in channels.overlaps():
        example = "" if witness is None else f", such as {witness.to_json()}"
        note(f"the channels {first!r} and {second!r} overlap: what both match{example} is in {first!r}")


def show_settings(settings: BrokerSettings, *, as_json: bool) -> None:
    """All that a broker is run with."""
    from fairlead.configuration import written

    held = written(settings)
    if as_json:
        emit_json(held)
        return
    del held["channels"]
    top = {key: value for key, value in held.items() if not isinstance(value, dict)}
    for table, keys in {"": top, **{name: held[name] for name in held if name not in top}}.items():
        if table:
            say(paint(f"[{table}]", "bold"))
        for key, value in keys.items():
            say(f"{paint(f'{key:<15}', 'dim')}{value if isinstance(value, str) else _shown(value)}")
    for channel in settings.channels:
        say(paint("[[channels]]", "bold"))
        for key, value in channel.to_json().items():
            say(f"{paint(f'{key:<15}', 'dim')}{value if isinstance(value, str) else _shown(value)}")


SHOWN: Final = {None: "-", True: "yes", False: "no"}


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return SHOWN[value]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_shown(each)}" for key, each in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
