"""`fairlead network`: a whole network of brokers on one machine, each a process of its own."""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

from fairlead.cli.broker import remark_on, show_settings
from fairlead.cli.terminal import complain, emit_json, note, paint, say, speaks_unicode
from fairlead.errors import NetworkError

if TYPE_CHECKING:
    from fairlead.network.overlay import Overlay

__all__ = ["configure"]

END_S: Final = 10.0
"""The time a broker may take to end before it is killed."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Run a whole network of brokers on one machine, or check the file that describes one."
    )
    parser.epilog = "Example: fairlead network up topology.toml"
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    up = actions.add_parser("up", help="run all brokers of a network until interrupted")
    up.description = (
        "Run all brokers of a network, each a process of its own, until interrupted (Ctrl-C) or terminated. "
        "The file is checked before anything starts. When one of them dies, the command says so, and the "
        "others continue; it can be started again with `fairlead broker run --network FILE --name NAME`."
    )
    up.epilog = (
        "Example: fairlead network up topology.toml. "
        "Exit code: 0 when it was stopped, 1 when all brokers had died, 2 when one could not be started."
    )
    up.add_argument("file", metavar="FILE")
    up.add_argument("-v", "--verbose", action="store_true", help="write more log messages")
    up.set_defaults(run=_up)
    check = actions.add_parser("check", help="check the file of a network, and draw it")
    check.description = (
        "Check the file of a network: all that is wrong with it, or the tree that its brokers make, and which of"
        " them no way of trusted brokers connects, by the policy of [security]."
        " With --name, all that holds for one of them."
    )
    check.epilog = "Example: fairlead network check topology.toml. Exit code: 2 where something is wrong."
    check.add_argument("file", metavar="FILE")
    check.add_argument("--name", metavar="NAME", help="show the settings of this broker")
    check.add_argument("--json", action="store_true", help="one JSON object")
    check.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    from fairlead.drawing import tree
    from fairlead.network.contexts import server_context
    from fairlead.network.overlay import read_overlay

    overlay = read_overlay(arguments.file)
    for each in overlay.brokers:
        if each.tls is not None:
            server_context(each.tls)
    if arguments.name is not None:
        settings = overlay.settings(arguments.name)
        linked = overlay.topology.neighbours(settings.name)
        show_settings(replace(settings, links=linked), as_json=arguments.json)
        remark_on(settings.read_channels(settings.language))
        return 0
    listen = {each.name: each.listen for each in overlay.brokers}
    apart = overlay.separated()
    remark_on(overlay.brokers[0].read_channels(overlay.brokers[0].language))
    if arguments.json:
        emit_json(
            {
                "brokers": {name: str(at) for name, at in listen.items()},
                "links": overlay.topology.links,
                "apart": [[one, other, str(filter)] for one, other, filter in apart],
            }
        )
        return 0

    def lines(name: str) -> list[str]:
        address = listen[name]
        return [f"{name}  {address if address.port else f'{address.host}, a port that is chosen'}"]

    root = overlay.topology.brokers[0]
    children = overlay.topology.children(root)
    for line in tree(root, children.__getitem__, lines, plain=not speaks_unicode(sys.stdout)):
        say(line)
    for one, other, filter in apart:
        say(paint(f"warning: no way of trusted brokers between {one} and {other} for {filter}", "yellow"))
    return 0


# -- up ------------------------------------------------------------------------------------------------------


class _Stop(BaseException):
    """To stop."""


def _up(arguments: argparse.Namespace) -> int:
    from fairlead.network.overlay import ports_of, read_overlay

    overlay = read_overlay(arguments.file)
    ports = ports_of(overlay)
    with contextlib.suppress(_Stop), _stop_on_signals(), _running(overlay, ports, arguments) as running:
        for name, process in running.items():
            _await_ready(name, process)
        return _watch(running)
    return 0


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[None]:
    """SIGINT and SIGTERM raise `_Stop` in here, once: shutting down is not interrupted."""
    numbers = (signal.SIGINT, signal.SIGTERM)

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise _Stop

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _running(
    overlay: Overlay, ports: Mapping[str, int], arguments: argparse.Namespace
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """The brokers, each as a process; they end with the block."""
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for each in overlay.brokers:
            running[each.name] = _started(each.name, ports, arguments)
        yield running
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            _end(process)


def _started(name: str, ports: Mapping[str, int], arguments: argparse.Namespace) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fairlead", "broker", "run", "--network", arguments.file, "--name", name]
    command += [f"--ports={each}={port}" for each, port in ports.items()]
    # It ends with this process, too, if that is killed: its standard input ends then.
    command += ["--stdin", *(["--verbose"] if arguments.verbose else [])]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for this process, which then ends the others
    )


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _await_ready(name: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        raise NetworkError(f"the broker {name!r} could not be started: it {_how(process.returncode)}")
    say(line.rstrip())
    sys.stdout.flush()


def _watch(running: Mapping[str, subprocess.Popen[str]]) -> int:
    """Report brokers that exit, until all have."""
    died: SimpleQueue[str] = SimpleQueue()

    def wait(name: str, process: subprocess.Popen[str]) -> None:
        process.wait()
        died.put(name)

    for each in running.items():
        threading.Thread(target=wait, args=each, daemon=True).start()
    for left in reversed(range(len(running))):
        name = died.get()
        complain(f"the broker {name!r} {_how(running[name].returncode)}; {left:,} left")
    note("all brokers have ended")
    return 1


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
