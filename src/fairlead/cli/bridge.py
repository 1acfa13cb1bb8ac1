"""`fairlead bridge`: between topics of Kafka and a network of brokers."""

from __future__ import annotations

import argparse

from fairlead.cli.connecting import add_connection_options, brokers_of, credentials_of, tls_of
from fairlead.cli.inputs import read_filter
from fairlead.cli.terminal import complain, emit_json, note
from fairlead.errors import BadInput

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Pass the records of Kafka's topics on to a broker, or what a filter matches on to a topic, each once,"
        " until it is ended with Ctrl-C. It goes on where it was under the same --name."
    )
    parser.epilog = (
        "Examples: fairlead bridge in quotes trades --kafka host:9092; "
        "fairlead bridge out alerts 'price > 100' --kafka host:9092. "
        "Exit code: 0 when it was ended, 3 when records were rejected."
    )
    parser.add_argument("direction", choices=("in", "out"), help="into the network, or out of it")
    parser.add_argument("what", metavar="TOPIC", nargs="+", help="topics; out: one topic, and a filter")
    parser.add_argument("--kafka", metavar="HOST:PORT", required=True, help="where Kafka is")
    parser.add_argument(
        "--name", metavar="NAME", default="bridge", help="of the group, or the durable subscription"
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting of Kafka's client (may be repeated)",
    )
    parser.add_argument(
        "--about", metavar="ATTRIBUTE", help="in: the attribute that gets the rest of a record"
    )
    parser.add_argument(
        "--tombstones",
        choices=("reject", "skip", "keep"),
        default="reject",
        help="in: records without a value",
    )
    parser.add_argument(
        "--record-key", metavar="ATTRIBUTE", help="out: whose value is a record's key (default: the producer)"
    )
    parser.add_argument("--json", action="store_true", help="at the end, the numbers as JSON")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.kafka.records import Reading
    from fairlead.kafka.writing import check_topic
    from fairlead.network.bridging import Inward, Outward, Passed, serve
    from fairlead.network.client import connect

    settings = {"bootstrap.servers": arguments.kafka}
    for each in arguments.set:
        name, found, value = each.partition("=")
        if not found:
            raise BadInput(f"not KEY=VALUE: {each}", hint="--set security.protocol=SSL")
        settings[name] = value
    bridge: Inward | Outward
    if arguments.direction == "in":
        reading = Reading(about=arguments.about, tombstones=arguments.tombstones)
        bridge = Inward(
            settings,
            arguments.what,
            arguments.name,
            reading,
            lambda place, reason: complain(f"{place}: rejected: {reason}"),
        )
    else:
        if len(arguments.what) != 2:
            raise BadInput("a topic and a filter are wanted", hint="fairlead bridge out alerts 'price > 100'")
        topic, filter = arguments.what
        read_filter(filter, None, "FILTER")
        bridge = Outward(settings, topic, arguments.name, filter, arguments.record_key)
    for topic in arguments.what[: 1 if arguments.direction == "out" else None]:
        check_topic(settings, topic)
    client = connect(
        brokers_of(arguments),
        tls=tls_of(arguments),
        patience=arguments.patience,
        policy="block",
        credentials=credentials_of(arguments),
    )
    passed = Passed()
    note(f"bridge {arguments.name}: {arguments.direction}")
    serve(client, bridge, passed)
    if arguments.json:
        emit_json({"passed": passed.passed, "rejected": passed.rejected, "repeated": passed.repeated})
    else:
        note(f"{passed.passed:,} passed on, {passed.rejected:,} rejected, {passed.repeated:,} repeated")
    return 3 if passed.rejected else 0
