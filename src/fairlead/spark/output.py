"""The output of a pipeline: batches, each committed as a whole or not at all.

    OUT/_fairlead/run.json                  whose output it is: version, fingerprint, configuration
    OUT/_fairlead/manifests/00000000.json   the commit of a batch, and all that the next one has to know
    OUT/_fairlead/last.json                 the number of a batch behind which few, if any, are committed
    OUT/_fairlead/plans/00000000.json       which changes of subscriptions a batch takes, until it is committed
    OUT/_fairlead/patterns/DIGEST.json      patterns, under the name of their content
    OUT/_fairlead/state/00000000/…          what is held back after a batch, and what of patterns is in progress
    OUT/_fairlead/remembered/00000000/…     hashes of identities that batches have released
    OUT/_fairlead/aside/…                   what is being written
    OUT/deliveries/batch=00000000/…         late, rejected and trace likewise

A batch is written aside, moved to its place, and committed by its manifest, which is one file and is made in
one step. What lies at a batch's place without a manifest is what an interrupted attempt has left: nobody
reads it, and the next attempt removes it. So a batch that is repeated after a crash replaces itself.

Batches are numbered one by one, and a stream may have any number of them: what is done for each, and for each
look at what is new, does not grow with how many there have been.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from fairlead.errors import PipelineError
from fairlead.model.order import BEGINNING
from fairlead.spark.storage import Directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CHANNELS", "VERSION", "Attempt", "Counts", "Manifest", "Output", "Segment"]

VERSION: Final = 2
CHANNELS: Final = ("access", "deliveries", "grants", "late", "rejected", "trace")
STATES_RETAINED: Final = 2
"""The state that the next batch starts from, and the one before: a reader may be looking at it."""
_OURS: Final = "_fairlead"
_MANIFESTS: Final = f"{_OURS}/manifests"
_REMEMBERED: Final = f"{_OURS}/remembered"
_PLANS: Final = "plans"
_PATTERNS: Final = "patterns"
_RUN: Final = "run"
_LAST: Final = "last"
_FORCED: Final = (f"{_OURS}/index", f"{_OURS}/checkpoint/offsets", f"{_OURS}/checkpoint/sources")
"""The files that a batch relies on, beside those it has written itself."""
LINKS_MAX: Final = 32
"""So many manifests are read to know which files were taken; then one lists them all."""
LINE: Final = (
    "subscriber string, time bigint, producer string, sequence bigint, id string, subscriptions array<string>"
)
"""The columns of a line of deliveries, beside the notification itself."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters of a batch, or of a run."""

    read: int = 0
    rejected: int = 0
    duplicates: int = 0
    late: int = 0
    released: int = 0
    held: int = 0
    """The number of rows held back after it."""
    deliveries: int = 0
    composites: int = 0
    """The number of composites that patterns have found."""
    in_progress: int = 0
    """For how many automata and keys something is in progress after it."""
    refused: int = 0
    """The number of changes of subscriptions and patterns that could not be taken: they are among the
    rejected rows, too."""
    published: int = 0
    """The number of notifications that went into the network."""
    own: int = 0
    """The number that came from there and are not taken, since pipelines have published them."""
    conflicts: int = 0
    """The number of copies of another one, with other content."""
    late_by_us: int = 0
    """The distance behind the watermark at which the latest one came."""

    def then(self, later: Counts) -> Counts:
        """The counts of both, one after the other."""
        sums = {each.name: getattr(self, each.name) + getattr(later, each.name) for each in fields(self)}
        late_by_us = max(self.late_by_us, later.late_by_us)
        return Counts(
            **{**sums, "held": later.held, "in_progress": later.in_progress, "late_by_us": late_by_us}
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """A table of identities that are remembered: those of its batch, and of earlier ones that it took over."""

    batch: int
    rows: int
    """About how many there are."""
    bound: int
    """All were settled below it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The commit of a batch."""

    batch: int
    counts: Counts = Counts()
    watermark: int = BEGINNING
    newest: Mapping[str, int] = field(default_factory=dict)
    """Per input the newest event time that it has shown."""
    final: bool = False
    """Whether this was the end of the input: nothing is held back, and no batch follows."""
    subscriptions: Mapping[str, Any] = field(default_factory=dict)
    patterns: str = ""
    """The file with the patterns that are asked for; none where there are none."""
    taken: Sequence[str] = ()
    """The files of changes that it has taken in, behind those of the batch `taken_before`."""
    taken_before: int | None = None
    """The manifest where the list goes on; None where it is whole. So it need not be repeated with every
    batch."""
    held: Mapping[str, bool] = field(default_factory=dict)
    """The facts that hold among the rows that are held back (`ordering.Facts`)."""
    remembered: Sequence[Segment] = ()
    """The segments of the identities that are remembered, the eldest first."""
    channels: Sequence[str] = ()
    """The channels that have files in this batch."""
    columns: str = ""
    """A digest of the typed columns that notifications have, if any: files may come to have more of them."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why rows were rejected, the most frequent kinds of reasons."""
    seconds: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    finished_at: str = ""

    def dump(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}, ensure_ascii=False, indent=1).encode()

    @classmethod
    def load(cls, content: bytes, where: str) -> Manifest:
        """The manifest that a file holds; PipelineError where it is damaged or of another version."""
        given = _loaded(content, where)
        try:
            remembered = tuple(Segment(**each) for each in given.get("remembered", ()))
            return cls(**{**given, "counts": Counts(**given["counts"]), "remembered": remembered})
        except (KeyError, TypeError) as error:
            raise PipelineError(f"{where} is damaged: {error}") from error


class Output:
    """The output directory of a pipeline. Readers see committed batches only."""

    def __init__(self, path: str) -> None:
        self.root: Final = Directory(path)

    # -- whose it is ---------------------------------------------------------------------------------------

    def run(self) -> Mapping[str, Any] | None:
        """The description of the run that the directory belongs to; None if it is new."""
        if (run := self.note(_RUN)) is not None:
            return run
        if found := [each for each in self.root.names() if each != _OURS]:
            raise PipelineError(
                f"{self.root.uri} exists, holds {found[0]!r} and is not the output of a pipeline",
                hint="name a directory that is new or empty",
            )
        return None

    def check(self, fingerprint: str) -> bool:
        """Whether a run with this configuration continues here; False if it would be the first.

        What another configuration has begun, without a single batch committed, is no output of anything.
        """
        run = self.run()
        if run is None or (run["fingerprint"] != fingerprint and not self.batches()):
            return False
        if run["fingerprint"] != fingerprint:
            raise PipelineError(
                f"{self.root.uri} is the output of another configuration",
                hint="name another output, remove that one, or go back to the configuration in "
                f"{self.root.path(_OURS)}/run.json",
            )
        return True

    @contextmanager
    def claimed(self, fingerprint: str, configuration: Mapping[str, Any]) -> Iterator[bool]:
        """Claim the directory for this process; yields whether an earlier run continues."""
        with self._lock():
            resumed = self.check(fingerprint)
            if not resumed:
                self.root.delete(f"{_OURS}/checkpoint")
                self.root.delete(f"{_OURS}/index")
                self.root.delete(f"{_OURS}/{_PATTERNS}")
                self.root.delete(f"{_OURS}/{_PLANS}")
                self.keep_note(_RUN, {"fingerprint": fingerprint, "configuration": dict(configuration)})
            elif not self.has_begun():
                self.root.delete(f"{_OURS}/checkpoint")
            with suppress(OSError):  # the Spark of a killed run may be writing there still; nobody reads it
                self.root.delete(f"{_OURS}/aside")
            yield resumed

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One writer at a time. A lock of the operating system goes with the process, however that ends."""
        local = self.root.local()
        if local is None:  # other file systems have no such lock
            yield
            return
        import fcntl

        self.run()  # a directory that is not ours stays untouched
        self.root.make(_OURS)
        handle = os.open(local / _OURS / "lock", os.O_CREAT | os.O_RDWR)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(
                    f"another run is writing to {self.root.uri}", hint="wait for it, or end it"
                ) from None
            yield
        finally:
            os.close(handle)

    @property
    def checkpoint(self) -> str:
        """The directory of Spark's checkpoint of a stream."""
        return self.root.path(f"{_OURS}/checkpoint")

    def has_begun(self) -> bool:
        """Whether some batch has been cut: Spark has written down what the first one reads, or it is committed.

        A run that is killed while it writes that down leaves part of a checkpoint, which Spark would refuse. No
        batch has been given to anybody then, and whoever comes next begins anew.
        """
        offsets = f"{_OURS}/checkpoint/offsets"
        whole = (size > 0 and file.rpartition("/")[2].isdecimal() for file, size in self.root.files(offsets))
        return any(whole) or self.last() is not None

    @property
    def index(self) -> Directory:
        """The directory of compiled subscriptions."""
        return self.root / f"{_OURS}/index"

    def patterns(self, name: str) -> bytes:
        """The patterns in a file that a manifest names."""
        return self.root.read(f"{_OURS}/{_PATTERNS}/{name}")

    def keep_patterns(self, content: bytes) -> str:
        """Write patterns down under the name of their content, unless they are; the name."""
        name = f"{blake2b(content, digest_size=16).hexdigest()}.json"
        if not self.root.exists(f"{_OURS}/{_PATTERNS}/{name}"):
            self.root.write(f"{_OURS}/{_PATTERNS}/{name}", content, durable=True)
        return name

    def sweep_patterns(self, names: Collection[str]) -> None:
        """Remove all patterns but these."""
        for name in set(self.root.names(f"{_OURS}/{_PATTERNS}")) - set(names):
            self.root.delete_file(f"{_OURS}/{_PATTERNS}/{name}")

    def note(self, name: str) -> Mapping[str, Any] | None:
        """The note under a name; None if there is none."""
        path = f"{_OURS}/{name}.json"
        return _loaded(self.root.read(path), self.root.path(path)) if self.root.exists(path) else None

    def keep_note(self, name: str, note: Mapping[str, Any], *, durable: bool = True) -> None:
        """Write a note beside the batches. A note that can be computed again need not be `durable`."""
        content = json.dumps({"version": VERSION, **note}, ensure_ascii=False, indent=1)
        self.root.write(f"{_OURS}/{name}.json", content.encode(), durable=durable)

    def identity(self, note: str) -> str:
        """The name of this output's transactions elsewhere, kept in a note: an output begun anew has another."""
        known = self.note(note)
        if known is None:
            known = {"name": f"fairlead-{uuid4().hex}"}
            self.keep_note(note, known)
        return str(known["name"])

    def plan(self, batch: int) -> list[str] | None:
        """The files of changes that an earlier attempt at a batch meant to take; None where there was none."""
        note = self.note(f"{_PLANS}/{batch:08}")
        return None if note is None else list(note["files"])

    def clock(self, batch: int) -> int | None:
        """The clock at an earlier attempt at a batch that rejected rows by it; None if there was none."""
        note = self.note(f"{_PLANS}/{batch:08}-clock")
        return None if note is None else int(note["now_us"])

    def keep_clock(self, batch: int, now_us: int) -> None:
        """Write down by what clock a batch rejects rows: should it be repeated, it rejects the same."""
        self.keep_note(f"{_PLANS}/{batch:08}-clock", {"now_us": now_us})

    def keep_plan(self, batch: int, files: Sequence[str]) -> None:
        """Write down which files of changes a batch takes: should it be repeated, it takes the same."""
        self.keep_note(f"{_PLANS}/{batch:08}", {"files": list(files)})

    def plan_path(self, batch: int) -> str:
        """The path of the plan for a batch."""
        return self.root.path(f"{_OURS}/{_PLANS}/{batch:08}.json")

    def drop_plan(self, batch: int) -> None:
        """Forget what a batch meant to take: it has taken nothing."""
        self.root.delete_file(f"{_OURS}/{_PLANS}/{batch:08}.json")

    # -- batches -------------------------------------------------------------------------------------------

    def batches(self) -> list[int]:
        """The committed batches, in order."""
        return [int(name.removesuffix(".json")) for name in self.root.names(_MANIFESTS)]

    def is_committed(self, batch: int) -> bool:
        """Whether a batch is there."""
        return self.root.exists(f"{_MANIFESTS}/{batch:08}.json")

    def batches_from(self, batch: int) -> Iterator[int]:
        """The committed batches from one on, one by one: nothing is listed."""
        while self.is_committed(batch):
            yield batch
            batch += 1

    def manifest(self, batch: int) -> Manifest:
        """The commit of a batch."""
        name = f"{_MANIFESTS}/{batch:08}.json"
        return Manifest.load(self.root.read(name), self.root.path(name))

    def manifests(self) -> list[Manifest]:
        """All commits, in order."""
        return [self.manifest(batch) for batch in self.batches()]

    def last(self) -> Manifest | None:
        """The last commit."""
        pointer = self._pointer()
        batches = [] if pointer is None else list(self.batches_from(pointer))
        batches = batches or self.batches()
        return self.manifest(batches[-1]) if batches else None

    def _pointer(self) -> int | None:
        """A batch that the last one is not far from: that one, unless a crash came between."""
        try:
            note = self.note(_LAST)
            return None if note is None else int(note["batch"])
        except (PipelineError, KeyError, TypeError, ValueError, FileNotFoundError):
            # A damaged one says nothing, nor does one that is replaced this very moment.
            return None

    def taken(self, last: Manifest) -> list[str]:
        """The files of changes that have been taken in up to a batch."""
        return [file for each in self._links(last) for file in each.taken]

    def taking(self, last: Manifest, files: Sequence[str]) -> dict[str, Any]:
        """The next manifest's entry about further files."""
        before = last.batch if last.taken else last.taken_before
        if files and len(links := self._links(last)) >= LINKS_MAX:
            return {"taken": (*(file for each in links for file in each.taken), *files), "taken_before": None}
        return {"taken": tuple(files), "taken_before": before}

    def _links(self, last: Manifest) -> list[Manifest]:
        """The manifests that together list the files taken, first to last."""
        links = [last]
        while (before := links[-1].taken_before) is not None:
            links.append(self.manifest(before))
        return links[::-1]

    def state(self, batch: int, name: str) -> str:
        """The path of a table of the state after a batch."""
        return self.root.path(f"{_OURS}/state/{batch:08}/{name}")

    def has_state(self, batch: int, name: str) -> bool:
        return self.root.exists(f"{_OURS}/state/{batch:08}/{name}")

    def state_files(self, batch: int, name: str) -> list[tuple[str, int]]:
        """The files of a table of the state, with their sizes in bytes; none where there is no such table."""
        return list(self.root.files(f"{_OURS}/state/{batch:08}/{name}"))

    def state_text(self, batch: int, name: str) -> str:
        """The text that a table of the state after a batch is; empty where there is no such table."""
        from pyarrow import parquet  # type: ignore[import-untyped]

        tables = [parquet.read_table(self.root.open(file)) for file, _ in self.state_files(batch, name)]
        return "".join(row for table in tables for row in table.column("text").to_pylist())

    def remembered(self, segment: Segment) -> str:
        """The path of a table of identities."""
        return self.root.path(f"{_REMEMBERED}/{segment.batch:08}")

    def remembered_files(self, segment: Segment) -> list[str]:
        """The files of that table."""
        return [file for file, _ in self.root.files(f"{_REMEMBERED}/{segment.batch:08}")]

    def sweep_remembered(self, *manifests: Manifest) -> None:
        """Remove the identities that none of these manifests remembers."""
        kept = {f"{segment.batch:08}" for manifest in manifests for segment in manifest.remembered}
        for name in set(self.root.names(_REMEMBERED)) - kept:
            self.root.delete(f"{_REMEMBERED}/{name}")

    # -- reading -------------------------------------------------------------------------------------------

    def paths(self, channel: str, manifests: Sequence[Manifest] | None = None) -> list[str]:
        """The paths of a channel's rows, in the order of the batches."""
        return [
            self.root.path(f"{channel}/batch={manifest.batch:08}")
            for manifest in (self.manifests() if manifests is None else manifests)
            if channel in manifest.channels
        ]

    def read(
        self, spark: SparkSession, channel: str = "deliveries", format: str | None = None
    ) -> DataFrame | None:
        """The rows of a channel in all committed batches; None where there are none.

        `batch` and `bucket` are columns of it. Typed columns are those of all batches. The `format` is the one
        that the run was configured with; of JSON lines the content is left out, which may be of any shape.
        """
        manifests = [each for each in self.manifests() if channel in each.channels]
        paths = self.paths(channel, manifests)
        if not paths:
            return None
        reader = spark.read.option("basePath", self.root.path(channel))
        if (format or self._format(channel)) == "json":
            return reader.schema(LINE).json(paths)
        differ = len({each.columns for each in manifests}) > 1  # only then is every file to be asked
        return reader.option("mergeSchema", differ).parquet(*paths)

    def _format(self, channel: str) -> str:
        """The format of a channel's rows."""
        configured = (self.run() or {}).get("configuration", {}).get("deliveries", {})
        return str(configured.get("format", "parquet")) if channel == "deliveries" else "parquet"


class Attempt:
    """One attempt at a batch: tables are written to temporary paths, then `commit` moves all of them."""

    def __init__(self, output: Output, batch: int) -> None:
        self._output, self._root = output, output.root
        self.batch: Final = batch
        # Under a name of its own: the Spark of a killed run may live on for seconds, and write.
        self._aside: Final = f"{_OURS}/aside/{batch:08}-{uuid4().hex[:12]}"

    def channel(self, name: str) -> str:
        """The path to write the rows of a channel to."""
        assert name in CHANNELS, name
        return self._root.path(f"{self._aside}/{name}")

    def state(self, name: str) -> str:
        """The path to write a table of the state to."""
        return self._root.path(f"{self._aside}/state/{name}")

    def create(self, name: str) -> Any:
        """A file of a channel or, below `state/`, of a table of the state, to be filled by the caller."""
        return self._root.create(f"{self._aside}/{name}")

    @property
    def remembered(self) -> str:
        """The path to write the remembered identities to."""
        return self._root.path(f"{self._aside}/remembered")

    def rows(self, name: str) -> int:
        """The number of rows that were written, from the files themselves."""
        from pyarrow import parquet

        return sum(parquet.read_metadata(file).num_rows for file in self._written(name))

    def column(self, name: str, column: str) -> Iterator[Any]:
        """The values of a column that was written, file by file."""
        from pyarrow import parquet

        for file in self._written(name):
            yield from parquet.read_table(file, columns=[column]).column(0).to_pylist()

    def name_lines(self, name: str) -> None:
        """Give the files of a channel that are JSON lines the ending of such; Spark knows of text only."""
        for file, _ in self._root.files(f"{self._aside}/{name}"):
            if file.endswith(".txt"):
                self._root.rename(file, f"{file.removesuffix('.txt')}.jsonl")

    def _written(self, name: str) -> Iterator[Any]:
        """The files of a channel, open to read."""
        for file, _ in self._root.files(f"{self._aside}/{name}"):
            if file.endswith(".parquet"):
                yield self._root.open(file)

    def commit(self, manifest: Manifest) -> None:
        """Move the state and the channels that the manifest names to their final paths. The manifest makes them
        visible."""
        assert manifest.batch == self.batch
        # A manifest must not outlive, in a loss of power, what it tells of; nor Spark's own account of what the
        # batch has read: Spark would cut another one under its number, and that would be taken for committed.
        self._root.force(self._aside, *_FORCED)
        for name in CHANNELS:
            self._root.delete(f"{name}/batch={self.batch:08}")
        for name in manifest.channels:
            self._root.move(f"{self._aside}/{name}", f"{name}/batch={self.batch:08}")
        state = f"{_OURS}/state/{self.batch:08}"
        self._root.delete(state)
        if self._root.exists(f"{self._aside}/state"):
            self._root.move(f"{self._aside}/state", state)
        remembered = f"{_REMEMBERED}/{self.batch:08}"
        self._root.delete(remembered)
        if self._root.exists(f"{self._aside}/remembered"):
            self._root.move(f"{self._aside}/remembered", remembered)
        self._root.write(f"{_MANIFESTS}/{self.batch:08}.json", manifest.dump(), durable=True)
        self._output.keep_note(_LAST, {"batch": self.batch}, durable=False)
        for plan in self._root.names(f"{_OURS}/{_PLANS}"):
            if plan <= f"{self.batch:08}.json":
                self._root.delete_file(f"{_OURS}/{_PLANS}/{plan}")
        self._root.delete(self._aside)
        for old in self._root.names(f"{_OURS}/state")[:-STATES_RETAINED]:
            self._root.delete(f"{_OURS}/state/{old}")


def _loaded(content: bytes, where: str) -> dict[str, Any]:
    try:
        given = json.loads(content)
        version = given.pop("version")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{where} is damaged: {error}") from error
    if version != VERSION:
        raise PipelineError(
            f"{where} is of version {version}, and this Fairlead reads version {VERSION}",
            hint="go on with the Fairlead that wrote it, or name another output",
        )
    assert isinstance(given, dict)
    return given
