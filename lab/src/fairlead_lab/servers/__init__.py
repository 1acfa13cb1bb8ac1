"""Real servers for tests and examples: fetched once, started on loopback, ended with the process that asked.

    with kafka.running(directory) as address:     Kafka in KRaft mode, from the jars of Maven Central
    with postgres.running() as options:          PostgreSQL, from the distribution's package
    with registry.running() as url:               schemas of Avro and Protobuf, as schema registries answer

What cannot be had here raises `Missing`, which says what is missing: a test must not pass in its place.
"""

from __future__ import annotations

from fairlead_lab.servers.processes import Missing

__all__ = ["Missing"]
