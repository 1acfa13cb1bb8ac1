"""The output of a pipeline: a batch is there as a whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from fairlead.errors import PipelineError
from fairlead.spark import storage
from fairlead.spark.asking import demand
from fairlead.spark.batch import Batch, Standing
from fairlead.spark.config import Config
from fairlead.spark.output import LINKS_MAX, Attempt, Counts, Manifest, Output
from fairlead.spark.storage import Directory
from fairlead.spark.writing import TABLE, check_owner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write(path: str, text: str) -> None:
    Path(path).mkdir(parents=True)
    Path(path, "part.txt").write_text(text)


def commit(output: Output, batch: int, text: str) -> None:
    attempt = Attempt(output, batch)
    write(attempt.channel("deliveries"), text)
    write(attempt.state("held"), text)
    attempt.commit(Manifest(batch, counts=Counts(read=batch), channels=("deliveries",)))


def texts(output: Output) -> list[str]:
    return [output.root.read(f"deliveries/batch={batch:08}/part.txt").decode() for batch in output.batches()]


def test_a_batch_is_there_once_it_is_committed(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "out"))
    with output.claimed("f", {}) as resumed:
        assert not resumed
        commit(output, 0, "zero")
        commit(output, 1, "one")
    assert texts(output) == ["zero", "one"]
    assert [manifest.counts.read for manifest in output.manifests()] == [0, 1]
    assert output.last() == output.manifest(1)


def test_what_an_interrupted_attempt_has_left_is_replaced(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "out"))
    with output.claimed("f", {}):
        commit(output, 0, "zero")
        # Killed after the move and before the manifest, with something of another channel beside it.
        write(output.root.path("deliveries/batch=00000001"), "half")
        write(output.root.path("late/batch=00000001"), "half")
        write(output.root.path("_fairlead/aside/00000001-abc/deliveries"), "half")
    assert texts(output) == ["zero"]
    with output.claimed("f", {}) as resumed:
        assert resumed
        assert not output.root.exists("_fairlead/aside")
        commit(output, 1, "one")
    assert texts(output) == ["zero", "one"]
    assert not output.root.exists("late/batch=00000001")


def test_states_of_the_past_are_removed_but_the_last_two(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "out"))
    with output.claimed("f", {}):
        for batch in range(4):
            commit(output, batch, "")
    assert output.root.names("_fairlead/state") == ["00000002", "00000003"]
    assert output.has_state(3, "held")


def test_another_configuration_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    with output.claimed("f", {"name": "one"}):
        commit(output, 0, "zero")
    with pytest.raises(PipelineError, match="another configuration"), output.claimed("g", {}):
        pass
    assert texts(output) == ["zero"]
    assert output.run() == {"fingerprint": "f", "configuration": {"name": "one"}}


def test_what_another_configuration_has_begun_without_a_batch_can_be_taken_over(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    with output.claimed("f", {"name": "one"}):
        write(output.checkpoint, "read so far")
    with output.claimed("g", {"name": "two"}) as resumed:
        assert not resumed
        assert not output.root.exists("_fairlead/checkpoint")
        commit(output, 0, "zero")
    assert output.run() == {"fingerprint": "g", "configuration": {"name": "two"}}


def test_a_checkpoint_without_a_whole_offset_is_begun_anew_and_one_with_a_whole_one_is_kept(
    tmp_path: Path,
) -> None:
    output = Output(str(tmp_path))
    with output.claimed("f", {}):
        offsets = Path(output.checkpoint, "offsets")
        write(str(offsets), "")
    # Killed while Spark wrote down what the first batch reads: a file under a temporary name, or without bytes.
    (offsets / ".0.5a0c.tmp").write_text("v1")
    (offsets / "0").write_text("")
    with output.claimed("f", {}) as resumed:
        assert resumed
        assert not Path(output.checkpoint).exists()
        write(str(offsets), "")
        (offsets / "0").write_text("v1")
    with output.claimed("f", {}):
        assert (offsets / "0").exists()
        (offsets / "0").unlink()
        commit(output, 0, "zero")
    with output.claimed("f", {}):
        assert offsets.exists()


def test_a_directory_with_something_else_in_it_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(PipelineError, match=r"thesis\.txt"), Output(str(tmp_path)).claimed("f", {}):
        pass
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_two_runs_do_not_write_to_one_output_at_the_same_time(tmp_path: Path) -> None:
    with (
        Output(str(tmp_path)).claimed("f", {}),
        pytest.raises(PipelineError, match="another run"),
        Output(str(tmp_path)).claimed("f", {}),
    ):
        pass
    with Output(str(tmp_path)).claimed("f", {}) as resumed:
        assert resumed


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 2, "batch": 0}', b'{"batch": 0}'])
def test_a_damaged_manifest_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    output = Output(str(tmp_path))
    output.root.write("_fairlead/manifests/00000000.json", content)
    with pytest.raises(PipelineError, match=r"00000000\.json is damaged"):
        output.last()


def test_a_manifest_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    with output.claimed("f", {}):
        commit(output, 0, "zero")
    path = tmp_path / "_fairlead/manifests/00000000.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.raises(PipelineError, match=r"00000000\.json is of version 99"):
        output.last()


def test_counts_of_batches_add_up_and_what_is_held_is_what_the_last_one_holds() -> None:
    one, two = Counts(read=5, held=3, deliveries=2), Counts(read=1, held=1, late=4)
    assert one.then(two) == Counts(read=6, held=1, deliveries=2, late=4)


def test_a_file_is_there_with_all_its_bytes_or_not_at_all(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    directory.write("below/a.txt", b"one")
    directory.write("below/a.txt", b"two")
    assert directory.read("below/a.txt") == b"two"
    assert list(directory.files()) == [("below/a.txt", 3)]
    (tmp_path / "below" / "b.txt.part").write_bytes(b"half")
    assert directory.names("below") == ["a.txt"]


def test_a_directory_that_is_made_while_it_is_listed_was_not_there_yet(tmp_path: Path) -> None:
    class Appearing:
        """A file system that finds no directory to list, and then that it is there: so it raises."""

        def get_file_info(self, _: object) -> object:
            raise FileNotFoundError("Cannot list directory")

    directory = Directory(str(tmp_path))
    directory._system = Appearing()
    assert directory.names("manifests") == []
    assert list(directory.files("manifests")) == []


def test_an_address_that_no_file_system_has_is_an_error_that_names_it() -> None:
    with pytest.raises(PipelineError, match="nosuch://here"):
        Directory("nosuch://here/out")


# -- long streams ------------------------------------------------------------------------------------------


def test_the_last_batch_is_found_whatever_became_of_the_pointer(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    pointer = tmp_path / "_fairlead" / "last.json"
    with output.claimed("f", {}):
        for batch in range(4):
            commit(output, batch, "")
    pointed = ("0", "1", "3", "7", "null", "[]", '"x"')
    for content in ("", "{}", *(f'{{"version": 2, "batch": {batch}}}' for batch in pointed)):
        pointer.write_text(content)
        assert output.last() == output.manifest(3)
    pointer.unlink()
    assert output.last() == output.manifest(3)


def test_looking_for_what_is_new_lists_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(str(tmp_path))
    with output.claimed("f", {}):
        for batch in range(3):
            commit(output, batch, "")
    monkeypatch.setattr(Directory, "names", lambda *_: pytest.fail("a directory was listed"))
    assert list(output.batches_from(1)) == [1, 2]
    assert list(output.batches_from(3)) == []
    assert output.is_committed(2)
    last = output.last()
    assert last is not None
    assert last.batch == 2


def test_the_files_taken_are_known_without_a_list_of_them_in_every_manifest(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    taken: list[str] = []
    lengths = []
    last = Manifest(-1)
    for batch in range(150):
        files = [f"{batch}.jsonl"] if batch % 3 else []
        taken += files
        Attempt(output, batch).commit(Manifest(batch, **output.taking(last, files)))
        last = output.manifest(batch)
        lengths.append(len(last.taken))
        assert output.taken(last) == taken
    assert sum(length > 1 for length in lengths) == len(taken) // LINKS_MAX


def test_a_manifest_of_before_lists_all_files_itself(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    given = json.loads(Manifest(0, taken=("a", "b")).dump())
    del given["taken_before"], given["columns"]
    old = Manifest.load(json.dumps(given).encode(), "old")
    assert output.taken(old) == ["a", "b"]
    assert output.taking(old, ["c"]) == {"taken": ("c",), "taken_before": 0}


def test_a_plan_is_kept_until_its_batch_is_committed(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    with output.claimed("f", {}):
        output.keep_plan(0, ["a", "b"])
    with output.claimed("f", {}):
        assert output.plan(0) == ["a", "b"]
        assert output.plan(1) is None
        commit(output, 0, "zero")
        assert output.plan(0) is None
        output.keep_plan(1, [])
        assert output.plan(1) == []


def test_a_batch_counts_once_the_disk_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(str(tmp_path / "out"))
    forced: list[str] = []
    force = os.fsync

    def noting(handle: int) -> None:
        forced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), tmp_path / "out"))
        force(handle)

    monkeypatch.setattr(os, "fsync", noting)
    with output.claimed("f", {}):
        told = forced.index("_fairlead/run.json.part")
        assert "_fairlead" in forced[told:]
        write(f"{output.checkpoint}/offsets", "what the batch reads")
        write(f"{output.checkpoint}/sources/0", "the files that are")
        output.index.write("a.filters", b"compiled")
        forced.clear()
        commit(output, 0, "zero")
    data = next(place for place, name in enumerate(forced) if name.endswith("deliveries/part.txt"))
    moved = forced.index("deliveries")
    manifest = forced.index("_fairlead/manifests/00000000.json.part")
    assert data < moved < manifest < forced.index("_fairlead/manifests")
    assert "." in forced[data:manifest]  # deliveries is a new entry there
    # What Spark has noted of the batch is there as well, or it would cut another one under its number.
    for relied_on in ("checkpoint", "checkpoint/offsets/part.txt", "checkpoint/sources/0/part.txt", "index"):
        assert f"_fairlead/{relied_on}" in forced[:manifest]


def test_what_no_disk_has_to_keep_does_not_stop_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[str] = []
    refused = {"below": errno.EINVAL}

    def noting(handle: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{handle}")).name
        if name in refused:
            raise OSError(refused[name], "refused")
        forced.append(name)

    directory = Directory(str(tmp_path))
    for name in ("below/a", "below/_temporary/0/b"):
        directory.write(name, b"")
    (tmp_path / "below" / "gone").symlink_to("nowhere")
    monkeypatch.setattr(os, "fsync", noting)
    directory.force("below", "nothing")
    assert forced.count("a") == 1
    assert not {"_temporary", "b"} & set(forced)
    refused["a"] = errno.EINVAL
    with pytest.raises(OSError, match="refused"):
        directory.force("below")


# -- what an attempt leaves ----------------------------------------------------------------------------------


def watching(place: Path) -> Config:
    (place / "subscriptions").mkdir()
    return Config.of(
        {
            "mode": "stream",
            "output": str(place / "out"),
            "events": {"path": str(place / "events")},
            "subscriptions": {"path": str(place / "subscriptions"), "format": "json", "watch": True},
        }
    )


def test_a_plan_whose_file_is_gone_is_an_error_that_names_both(tmp_path: Path) -> None:
    config, nobody = watching(tmp_path), cast("SparkSession", None)
    file = tmp_path / "subscriptions" / "0.jsonl"
    output = Output(config.output)
    output.keep_plan(0, [str(file)])
    gone = r"0\.jsonl is missing, and .*plans/00000000\.json lists"
    with pytest.raises(PipelineError, match=gone) as refused:
        demand(config, nobody, 0, None)
    assert "put the file back, or delete the plan" in str(refused.value)
    assert output.plan(0) == [str(file)]
    file.write_text('{"id": "s", "filter": "x = 1"}\n')
    assert demand(config, nobody, 0, None).subscriptions.count == 1


def test_nothing_is_swept_away_while_another_run_is_at_the_next_batch(tmp_path: Path) -> None:
    config, nobody = watching(tmp_path), cast("SparkSession", None)
    output = Output(config.output)
    with Batch(config, nobody, 0, final=False) as batch:
        asked = demand(config, nobody, 0, None)
        output.index.write("theirs.filters", b"")
        output.keep_plan(1, [])
        batch.sweep(asked)
        assert output.index.exists("theirs.filters")
        output.drop_plan(1)
        batch.sweep(asked)
        assert not output.index.exists("theirs.filters")


class Catalog:
    """A Spark whose tables all have a row."""

    @property
    def catalog(self) -> Catalog:
        return self

    def tableExists(self, _: str) -> bool:
        return True

    def table(self, _: str) -> Catalog:
        return self

    def isEmpty(self) -> bool:
        return False


def test_a_claim_to_one_table_is_none_to_another(tmp_path: Path) -> None:
    output, spark = Output(str(tmp_path)), cast("SparkSession", Catalog())
    output.keep_note(TABLE, {"table": "ours"})
    check_owner(spark, "ours", output)
    with pytest.raises(PipelineError, match="theirs has rows already"):
        check_owner(spark, "theirs", output)


# -- where it is -------------------------------------------------------------------------------------------


def test_a_local_directory_has_one_name_however_it_is_written(tmp_path: Path) -> None:
    for written in (f"file:{tmp_path}/out", f"file://{tmp_path}/out/", f"file://localhost{tmp_path}/out"):
        directory = Directory(written)
        assert directory.uri == f"file://{tmp_path}/out"
        assert directory.local() == tmp_path / "out"
        directory.write("a.txt", written.encode())
        assert (tmp_path / "out" / "a.txt").read_text() == written


@pytest.mark.parametrize(
    ("uri", "arrow"),
    [
        ("s3a://bucket/out/", "s3://bucket/out"),
        ("s3n://bucket/out", "s3://bucket/out"),
        ("s3://bucket/out", "s3://bucket/out"),
        ("hdfs://host:8020/out", "hdfs://host:8020/out"),
        ("file:/out", "file:///out"),
        ("/a/file:/out", "/a/file:/out"),
        ("/out", "/out"),
    ],
)
def test_an_address_of_sparks_is_known_to_pyarrow_by_its_own_name(uri: str, arrow: str) -> None:
    assert storage._for_arrow(uri) == arrow


def test_a_batch_tells_its_stage_and_then_its_rows_and_how_fast_they_go() -> None:
    begun = Standing(3, "ingest", since=10.0)
    assert begun.describe(12.0) == "batch 3, ingest"
    assert begun._replace(stage="match", rows=10_000).describe(14.0) == "batch 3, match: 10,000 rows, 2,500/s"


def test_deliveries_are_read_in_the_format_that_the_run_was_configured_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    output = Output(str(tmp_path))
    line = '{"subscriber":"ada","time":1,"producer":"p","sequence":null,"id":"a","subscriptions":["s1"]}'
    with output.claimed("f", {"deliveries": {"format": "json"}}):
        commit(output, 0, f"{line}\n")
    deliveries = output.read(spark)
    assert deliveries is not None
    [row] = deliveries.collect()
    assert (row.subscriber, row.id, row.subscriptions, row.batch) == ("ada", "a", ["s1"], 0)
