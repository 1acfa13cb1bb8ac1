"""A Kafka broker in KRaft mode: one process that is broker and controller, with its data in a directory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from fairlead_lab.servers.jars import fetched
from fairlead_lab.servers.processes import Missing, free_ports, listens, started

__all__ = ["running"]

PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
"""
JVM: Final = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """The address of a broker, `127.0.0.1:PORT`, that runs while the block does."""
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ.get('PATH', '')}")
    if java is None:
        raise Missing("Kafka needs Java: `make java` installs one")
    classes = ":".join(map(str, fetched("kafka")))
    port, controller = free_ports(2)
    properties, data = directory / "server.properties", directory / "data"
    properties.write_text(PROPERTIES.format(port=port, controller=controller, data=data), "utf-8")
    program = [java, *JVM, "-cp", classes]
    cluster = uuid4().hex[:22]
    command = [*program, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
    subprocess.run(command, check=True, capture_output=True)
    serve = [*program, "kafka.Kafka", str(properties)]
    # It has nothing to put away: what it wrote is removed with the directory.
    with started(serve, directory / "kafka.log", lambda: listens(port), end=signal.SIGKILL):
        yield f"127.0.0.1:{port}"
