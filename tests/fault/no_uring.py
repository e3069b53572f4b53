"""Runs a command under a seccomp filter in which io_uring_setup is not permitted, as containers do.

    python3 no_uring.py COMMAND [ARGUMENT ...]
"""

import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SYS_IO_URING_SETUP = 425  # on every architecture
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO_EPERM = 0x7FFF0000, 0x00050000 | 1


class _Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid():
    """Installs the filter for this process and all it starts."""
    steps = [(LOAD_WORD, 0, 0, 4), (JUMP_IF_EQUAL, 0, 3, AUDIT_ARCH[platform.machine()]), (LOAD_WORD, 0, 0, 0),
             (JUMP_IF_EQUAL, 0, 1, SYS_IO_URING_SETUP), (RETURN, 0, 0, ERRNO_EPERM), (RETURN, 0, 0, ALLOW)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code)
    program = _Program(len(steps), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "cannot install the seccomp filter")


if __name__ == "__main__":
    forbid()
    os.execvp(sys.argv[1], sys.argv[1:])
