"""kcat 1.7.1 as Debian ships it (librdkafka 2.0.2, an old client). Usage: see python/common.py.

kcat takes its messages as lines and its headers for all messages at once, so
`produce` runs it once per record. `load` leaves the choice of partition to
kcat: its digest has no partitions.
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from common import Digest, lines, main, records, show_record  # noqa: E402

FORMAT = "%p %o %T %K %S %h\t%k%s\n"


def kcat(bootstrap, *args, **more):
    return subprocess.run(["kcat", "-q", "-b", bootstrap, *args], check=True, **more)


def produce(bootstrap, topic, codec, path):
    """Keys travel before a separator of \\x1e, null values as empty input with -Z."""
    for partition, _timestamp, key, value, headers in records(path):
        args = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-X", "enable.idempotence=true",
                "-X", "message.max.bytes=1000000", "-D", "\x1d"]
        for name, content in headers:
            args += ["-H", name if content is None else f"{name}={content.decode()}"]
        text = b"" if value is None else value
        if value is None:
            args.append("-Z")
        if key is not None:
            args += ["-K", "\x1e"]
            text = key + b"\x1e" + text
        kcat(bootstrap, *args, input=text)
        print(json.dumps({"p": partition, "o": None}))


def load(bootstrap, topic, codec, path):
    kcat(bootstrap, "-P", "-t", topic, "-z", codec, "-X", "enable.idempotence=true", "-X", "linger.ms=20",
         "-X", "batch.size=500000", "-l", path)
    digest = Digest()
    for _, line in lines(path):
        digest.add(0, line)
    digest.ordered.clear()
    return digest


def stream(bootstrap, topic, fmt):
    args = ["kcat", "-q", "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-f", fmt, "-X", "check.crcs=true"]
    return subprocess.Popen(args, stdout=subprocess.PIPE, bufsize=1 << 20)


def consume(bootstrap, topic):
    with stream(bootstrap, topic, FORMAT) as child:
        while head := until(child.stdout, b"\t"):
            partition, offset, timestamp, key_size, value_size, headers = head[:-1].split(b" ", 5)
            key, value = (None if int(n) < 0 else child.stdout.read(int(n)) for n in (key_size, value_size))
            assert child.stdout.read(1) == b"\n"
            pairs = [pair.split("=", 1) for pair in headers.decode().split(",")] if headers else []
            show_record(int(partition), int(offset), int(timestamp), key, value, [
                (name, None if content == "NULL" else content.encode()) for name, content in pairs])
        if child.wait():
            raise RuntimeError(f"kcat ended with {child.returncode}")


def until(source, stop):
    """Bytes up to and with `stop`; empty at the end of the stream."""
    out = bytearray()
    while byte := source.read(1):
        out += byte
        if byte == stop:
            break
    return bytes(out)


def drain(bootstrap, topic):
    digest = Digest()
    with stream(bootstrap, topic, "%p %R%s") as child:
        read = child.stdout.read
        while head := until(child.stdout, b" "):
            digest.add(int(head), read(int.from_bytes(read(4), "big")))
        if child.wait():
            raise RuntimeError(f"kcat ended with {child.returncode}")
    return digest


if __name__ == "__main__":
    main(sys.modules[__name__])
