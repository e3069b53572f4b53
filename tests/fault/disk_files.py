"""What lies in a data directory, found by name and by marker, changed by position.

Only the layout that the broker documents is used: `topics/<topic>/<partition>/
<epoch>-<base>.log` holds v2 batches and nothing else; `journal/<shard>/*.wal`
holds frames that begin at multiples of 4096 bytes.
"""

import os
import re
import struct

from bench import data_files, topic_dir
from ledger import MARK_BYTES, payload

BLOCK_BYTES = 4096


def logs(data_dir, topic, partition):
    """The segment files of a partition, oldest first."""
    return data_files(topic_dir(data_dir, topic, partition), suffix=".log")


def base_offset(log):
    """The base offset in a segment's name."""
    return int(re.fullmatch(r"[0-9a-f]{8}-(\d{20})\.log", os.path.basename(log)).group(1))


def batch_spans(log):
    """[(position, bytes)] of the whole in-sequence batches of a segment file; zeros or rubbish end it."""
    with open(log, "rb") as file:
        raw = file.read()
    spans, at, expected = [], 0, base_offset(log)
    while at + 61 <= len(raw):
        base, length = struct.unpack_from(">qi", raw, at)
        if base != expected or length < 49 or raw[at + 16] != 2 or at + 12 + length > len(raw):
            break
        spans.append((at, 12 + length))
        expected = base + struct.unpack_from(">i", raw, at + 23)[0] + 1
        at += 12 + length
    return spans


def journal_files(data_dir):
    return data_files(os.path.join(str(data_dir), "journal"), suffix=".wal")


def journal_of(data_dir, i):
    """The journal file that holds the record with id `i`, or None."""
    mark = payload(i)[:MARK_BYTES]
    for path in journal_files(data_dir):
        with open(path, "rb") as file:
            if mark in file.read():
                return path
    return None


def frames(path):
    """Positions at which frames seem to begin: blocks with the first frame's magic."""
    with open(path, "rb") as file:
        raw = file.read()
    starts = [at for at in range(0, len(raw), BLOCK_BYTES) if raw[at:at + 4].strip(b"\0")]
    magic = next((raw[at:at + 4] for at in starts), None)
    return [at for at in starts if raw[at:at + 4] == magic]


def end_of_frames(path):
    """Where the next frame would be written: the first block behind the last byte that is not zero."""
    with open(path, "rb") as file:
        used = len(file.read().rstrip(b"\0"))
    return -(-used // BLOCK_BYTES) * BLOCK_BYTES


def overwrite(path, at, raw):
    """Puts bytes into a file at a position; the file grows if needed."""
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(raw)


def append(path, raw):
    with open(path, "ab") as file:
        file.write(raw)


def read_at(path, at, size):
    with open(path, "rb") as file:
        file.seek(at)
        return file.read(size)
