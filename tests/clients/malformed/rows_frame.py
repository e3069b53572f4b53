"""Frames and headers: what may not even reach an API."""

import struct

from bench import Row, body
from rawkafka import request_header


def frame(payload):
    return struct.pack(">i", len(payload)) + payload


def stream(name, raw, expect, key=18, version=0, **more):
    return Row(name, key, version, lambda bench: raw, expect, raw=True, **more)


HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(192)
ROWS = [
    stream("frame size -1", struct.pack(">i", -1), "closed"),
    stream("frame size -2^31", struct.pack(">i", -(1 << 31)), "closed"),
    stream("frame size 2^31-1", struct.pack(">i", (1 << 31) - 1), "closed"),
    stream("frame size 100 MiB + 1", struct.pack(">i", 100 * 1024 * 1024 + 1), "closed"),
    stream("frame size 0", struct.pack(">i", 0), "closed"),
    stream("frame size 100 MiB, then silence", struct.pack(">i", 100 * 1024 * 1024), "silent", wait=1.0),
    stream("frame cut in the length, then silence", b"\0\0", "silent", wait=1.0),
    stream("frame cut in the header, then silence", struct.pack(">i", 40) + b"\0\x12\0\0", "silent", wait=1.0),
    stream("HTTP GET", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "closed"),
    stream("TLS hello on plaintext", HELLO, "closed"),
    stream("four bytes of 0xff and rubbish", b"\xff" * 64, "closed"),
    stream("client id longer than the frame", frame(struct.pack(">hhih", 18, 0, 1, 300)), "closed"),
    stream("client id length -2", frame(struct.pack(">hhih", 18, 0, 1, -2)), "answer 0"),
    stream("client id null", frame(request_header(18, 0, 1, None)), "answer 0"),
    stream("client id of 32767 bytes", frame(request_header(18, 0, 1, "c" * 32767)), "answer 0"),
    stream("trailing bytes after the body", frame(request_header(18, 0, 1) + b"\xde\xad\xbe\xef"), "answer 0"),
    stream("header tag count 2^31-1", frame(request_header(18, 3, 1)[:-1] + b"\xff\xff\xff\xff\x07"), "closed", version=3),
    stream("header tag count over-long", frame(request_header(18, 3, 1)[:-1] + b"\xff" * 9 + b"\x7f"), "closed", version=3),
    stream("header tag unknown", frame(request_header(18, 3, 1)[:-1] + b"\1\x63\2ab" + b"\2j\2\x31\0"), "answer 0", version=3),
    stream("body tag unknown", frame(request_header(18, 3, 1) + b"\2j\2\x31" + b"\1\x63\2ab"), "answer 0", version=3),
]
ROWS += [stream(f"header cut to {n} bytes", frame(request_header(18, 0, 1)[:n]), "closed") for n in range(1, 15)]

# ApiVersions outside its range is the one unsupported version that gets an
# answer: a v0 body, so that any client can find its way (KIP-511).
for bad in (5, 99, 32767, -1, -32768):
    head = struct.pack(">hhi", 18, bad, 1) + struct.pack(">h", 5) + b"judge"
    tail = b"\0\2j\2\x31\0" if bad > 2 else b""
    ROWS.append(stream(f"ApiVersions v{bad}", frame(head + tail), "answer 35"))

NAMES = [("empty name", "", "1"), ("empty version", "judge", ""), ("space in the name", "a judge", "1"),
         ("name starts with a dash", "-judge", "1"), ("name ends with a dash", "judge-", "1"),
         ("newline in the version", "judge", "1\n"), ("non-ASCII name", "jüdge", "1")]
for label, software, release in NAMES:
    ROWS += [Row(f"ApiVersions v{v}: {label}", 18, v, body(18, v, client_software_name=software,
                                                          client_software_version=release), "answer 42")
             for v in (3, 4)]
ROWS += [Row("ApiVersions v3: dots, dashes and underscores", 18, 3,
             body(18, 3, client_software_name="a-b.c", client_software_version="1.2-rc_3"), ("answer 0", "answer 42"))]
