"""The records that every client must carry unchanged, and what each client cannot say.

`records(lacks)` gives them as the JSON rows of clients/python/common.py, without
those that need one of the features in `lacks`.
"""

import random
import time

PARTITIONS = 3
BASE_MS = int(time.time()) // 3600 * 3_600_000 - 7_200_000  # recent, or retention would take the records away


def records(lacks=()):
    rows = [dict(row, features=feature.split()) for feature, row in _all() if not set(feature.split()) & set(lacks)]
    return [dict(row, p=i % PARTITIONS, ts=BASE_MS + i * 1001) for i, row in enumerate(rows)]


def _all():
    """(features needed, row) pairs; the same in every run."""
    chance = random.Random(20)
    yield "", _row(b"key", b"value")
    yield "null_key", _row(None, b"a value without a key")
    yield "null_value", _row(b"tombstone", None)
    yield "empty_value", _row(b"an empty value", b"")
    yield "empty_key", _row(b"", b"an empty key")
    yield "nothing", _row(None, None)
    yield "headers", _row(b"h1", b"one header", [("name", b"content")])
    yield "headers", _row(b"h2", b"two headers", [("a", b"1"), ("b", b"2")])
    yield "headers dup_header", _row(b"h3", b"one name twice", [("same", b"1"), ("same", b"2")])
    yield "headers null_header", _row(b"h4", b"a null header", [("nothing", None)])
    yield "headers empty_header", _row(b"h5", b"an empty header", [("empty", b"")])
    yield "headers binary_header", _row(b"h6", b"a binary header", [("raw", bytes(range(256)))])
    yield "headers unicode_header", _row(b"h7", b"a name beyond ASCII", [("n\u00e4me-\u65e5", b"content")])
    yield "binary", _row(bytes(range(255, -1, -1)), bytes(range(256)) * 3)
    yield "", _row(b"text", "Zw\u00f6lf Boxk\u00e4mpfer \u2014 \u65e5\u672c\u8a9e".encode())
    yield "large binary", _row(b"900 KB that do not compress", chance.randbytes(900_000))
    yield "large", _row(b"900 KB that do compress", b"millstream " * 81_818)
    for i in range(60):
        size = chance.randrange(1, 3000)
        words = b" ".join(chance.choice((b"grain", b"flour", b"water", b"wheel")) for _ in range(size // 6 + 1))
        yield "", _row(b"k%d" % i, words)


def _row(key, value, headers=()):
    return {"k": None if key is None else key.hex(), "v": None if value is None else value.hex(),
            "h": [[name, None if content is None else content.hex()] for name, content in headers]}
