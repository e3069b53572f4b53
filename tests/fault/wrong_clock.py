"""A clock of day that steps on demand, for one process: its monotonic clock stays true, as on a real machine.

A small library in front of libc's clock_gettime adds what a shared file says.
"""

import os
import struct
import subprocess

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long none, *shift = &none;

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("WRONG_CLOCK"), O_RDONLY | O_CLOEXEC);
    void *page = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    shift = page;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int code = syscall(SYS_clock_gettime, id, now);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *shift;
    return code;
}
"""


class WrongClock:
    """`wrapper` runs a broker with this clock; `set(seconds)` steps it to so much ahead of the true one."""

    def __init__(self, directory):
        self.file = os.path.join(directory, "clock")
        library = os.path.join(directory, "wrong_clock.so")
        source = os.path.join(directory, "wrong_clock.c")
        with open(source, "w", encoding="ascii") as out:
            out.write(SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        with open(self.file, "wb") as out:
            out.write(struct.pack("=q", 0))
        self.ahead = 0
        self.wrapper = ["env", f"WRONG_CLOCK={self.file}", f"LD_PRELOAD={library}"]

    def set(self, seconds):
        self.ahead = seconds
        with open(self.file, "r+b") as out:
            out.write(struct.pack("=q", seconds))
