"""kill -9 of a writer at any moment loses nothing that was synced, and readers in other processes go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.errors import LogInUse
from fairlead.log import Log, Reader

WRITER = """
import sys
from fairlead.log import Log

log = Log(sys.argv[1], segment_bytes=4000, buffer_bytes=300)
print(log.recovery.end, flush=True)
while True:
    for _ in range(5):
        log.append(1, b"%d" % log.end, log.end)
    log.cursors["written"] = log.end
    print(log.sync(), flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_had_synced(tmp_path: Path) -> None:
    with Log(tmp_path):
        pass
    reader = Reader(tmp_path, kinds=range(2))
    seen = 0
    for lives in range(3):
        arguments = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert int(writer.stdout.readline()) >= seen
            for _ in range(12 + lives):
                synced = int(writer.stdout.readline())
            with pytest.raises(LogInUse, match=f"the process {writer.pid} has it"):
                Log(tmp_path)
            writer.kill()
            rest = writer.stdout.read().split("\n")[:-1]
        synced = int(rest[-1]) if rest else synced
        with Log(tmp_path) as log:
            assert log.end >= synced
            # A batch is five records and one that tells where the cursor is, five behind.
            assert log.cursors["written"] >= synced - 1
        for record in reader:
            assert record.offset == seen
            assert record.kind != 1 or record.payload == b"%d" % record.offset
            seen += 1
        assert seen >= synced
    reader.close()
