"""A log is a sequence of records that grows at its end; what has been synced is never lost and never changes.

Records have offsets 0, 1, 2, … without gaps. `Log` appends and syncs (one writer at a time), `Reader` follows
from any offset, in any process, and retention removes whole segments at the front. After a crash, whatever
the disk did with what had not been synced, the log is the synced records and perhaps some of those that
followed, in order.

    format     the bytes: segments, records, marks, cursors
    writer     Log: append, sync, recover, retain
    reader     Reader: follow, search by time
    cursors    durable offsets by name, recorded in the log
    records    what a broker writes: publications, arrivals, changes of its state
    sparse_index  the offsets and positions of some records, noted while a segment is read
    segment    a file of a log, open for reading
    tail       which segment is the newest, so that a missing one is detected
    reserve    room for the records that make a full log smaller
    disk       the calls to the file system, all of them

The format, version 1. Integers are little-endian; `u` is unsigned, `i` signed; a CRC is CRC-32 as in zlib.

A log is a directory. Its segments are the files `OFFSET.log`, where OFFSET is the offset of the first record
in 20 decimal digits; a segment holds the records up to the next segment's. Besides there may be `OFFSET.new`,
a segment that is being made and is none yet; `lock`, which the writer holds with flock(2); `tail`, the offset of
the newest segment, or of an older one, in 20 decimal digits; and `reserve`, allocated and without content. Only
their owner may read these files. A segment is a head and records:

    head    bytes       what
            0   8       magic: 89 46 4C 4F 47 0D 0A 1A (\\x89 FLOG \\r \\n \\x1a)
            8   u16     version: 1
            10  u16     zero
            12  u32     length of the head, H
            16  u64 u32 mark: all records below this offset have been synced; and the CRC of the 8 bytes
            28  u64 u32 mark, once more: of the two, the greater one with a right CRC counts
            40  u64     offset of the first record, as in the file's name
            48  i64     latest time of a record in the segment before; -2^63 where there is none
            56  u32     number of cursors, and as many times:
            60          u16 length of the name in bytes, the name in UTF-8, u64 offset
            H-4 u32     CRC of the bytes 0 to 15 and 40 to H-5 (marks are written in place, and have their own)

    record  0   u32     CRC of all that follows
            4   u32     length of the payload, n: at most 2^24
            8   u64     offset
            16  i64     time in microseconds, as the writer gave it
            24  u16     kind: 0 is a change of cursors, 30 begins a group, all others are the user's
            26  n       payload

The payload of kind 0 is a list of cursors as in the head, without their number; the offset 2^64-1 removes a
cursor. So the cursors are those of a segment's head, changed by its records of kind 0, and the last segment
tells them all.

The payload of kind 30 is a u32 number of records: so many that follow it are a group with it, which is in the
log as a whole, or not at all. A group is in one segment. Where not all of it is there, the log ends before it.

A segment has its name only when its head is synced. All segments but the last end where their mark says, and
the next one begins there. In the last, a record below the mark that is not whole is damage, an error that
names file and offset; at or above the mark, the log ends before the first record that is not whole. The mark
of a sync is synced itself with the next sync (or on closing), so it is behind by one sync after a power
failure, and exact after a killed process.
"""

from fairlead.log.cursors import Cursors
from fairlead.log.disk import Disk
from fairlead.log.format import CURSORS, MAX_PAYLOAD, VERSION, Record
from fairlead.log.reader import Reader
from fairlead.log.sparse_index import SparseIndex
from fairlead.log.writer import Log, Recovery

__all__ = [
    "CURSORS",
    "MAX_PAYLOAD",
    "VERSION",
    "Cursors",
    "Disk",
    "Log",
    "Reader",
    "Record",
    "Recovery",
    "SparseIndex",
]
