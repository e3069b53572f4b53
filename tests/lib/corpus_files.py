"""Builds the corpus: at least 100 MB of lines from text that the machine ships.

The files are taken in the order of their paths, so that one machine always
builds the same corpus. Compressed ones are opened. Empty lines and lines over
512 KiB are left out (kcat cannot send an empty value line by line). Two files
come out: `text`, lines that are UTF-8 without carriage returns, which
line-oriented tools carry unchanged, and `binary`, all other lines.
"""

import gzip
import hashlib
import os

import tools

TEXT_BYTES = 104_000_000
BINARY_BYTES = 4_000_000
LINE_BYTES_MAX = 512 * 1024
FILE_BYTES_MAX = 8 << 20
TEXT_ROOTS = ("/usr/share/common-licenses", "/usr/share/doc", "/usr/share/man", "/usr/share/perl", "/usr/lib/python3",
              "/usr/include", os.path.expanduser("~/.cargo/registry/src"), "/usr/local/go/src", "/usr/share")
BINARY_ROOTS = ("/usr/bin", "/usr/lib/x86_64-linux-gnu")


def build():
    """{"text": path, "binary": path}; made once."""
    directory = os.path.join(tools.HOME, "corpus")
    paths = {kind: os.path.join(directory, kind) for kind in ("text", "binary")}
    if all(map(os.path.exists, paths.values())):
        return paths
    os.makedirs(directory, exist_ok=True)
    with open(paths["text"] + ".new", "wb") as text, open(paths["binary"] + ".new", "wb") as binary:
        sort(files(TEXT_ROOTS), text, binary, lambda: text.tell() >= TEXT_BYTES)
        sort(files(BINARY_ROOTS), None, binary, lambda: binary.tell() >= BINARY_BYTES)
        if text.tell() < TEXT_BYTES:
            raise tools.Missing(f"this machine ships only {text.tell()} bytes of text, {TEXT_BYTES} are wanted")
    for path in paths.values():
        os.rename(path + ".new", path)
    return paths


def sort(sources, text, binary, enough):
    """Writes the lines of each file to one of the two outputs."""
    for content in sources:
        for line in content.split(b"\n"):
            if not 0 < len(line) <= LINE_BYTES_MAX:
                continue
            if is_text(line):
                if text:
                    text.write(line + b"\n")
            elif binary.tell() < BINARY_BYTES:
                binary.write(line + b"\n")
        if enough():
            return


def is_text(line):
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\r" not in line


def files(roots):
    """The content of each regular file below the roots, each once."""
    seen = set()
    for root in roots:
        for directory, below, names in os.walk(root):
            below.sort()
            for name in sorted(names):
                content = read(os.path.join(directory, name))
                digest = hashlib.md5(content).digest()
                if content and digest not in seen:
                    seen.add(digest)
                    yield content


def read(path):
    """The bytes of a file, opened if it is gzipped; empty if it is of no use."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > FILE_BYTES_MAX:
            return b""
        with open(path, "rb") as source:
            content = source.read()
        return gzip.decompress(content) if path.endswith(".gz") else content
    except (OSError, EOFError):
        return b""


def slice_of(path, part, parts):
    """The part-th of `parts` line slices of a file, as a file beside it."""
    out = f"{path}.{part}of{parts}"
    if not os.path.exists(out):
        with open(path, "rb") as source:
            lines = source.readlines()
        step = -(-len(lines) // parts)
        with open(out + ".new", "wb") as target:
            target.writelines(lines[part * step:(part + 1) * step])
        os.rename(out + ".new", out)
    return out
