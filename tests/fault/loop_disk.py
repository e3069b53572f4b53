"""A disk of our own: ext4 on a loop device, whose power can be cut.

The power cut is the ext4 shutdown ioctl (the file system stops at once and
does not flush its journal), then the end of the process, umount and mount:
synced bytes survive, bytes that were only written vanish. After the ioctl each
write and each sync gives EIO, so the same call injects a failed flush.

Limit: there is no volatile drive cache in this model, so an unsynced direct
overwrite of blocks that were written before survives.
"""

import atexit
import fcntl
import os
import struct
import subprocess
import tempfile
import time

EXT4_IOC_SHUTDOWN = 0x8004587D
SHUTDOWN_NO_LOG_FLUSH = 2
SECTOR = 512
_live = []


def missing():
    """Why loop disks cannot be had here, or None."""
    if os.geteuid() != 0:
        return "loop disks need root"
    if not os.path.exists("/dev/loop-control"):
        return "this kernel offers no loop devices"
    for tool in ("mkfs.ext4", "losetup", "mount", "umount", "fsfreeze"):
        if subprocess.run(["which", tool], capture_output=True, check=False).returncode:
            return f"the tool {tool} is not installed"
    return None


class LoopDisk:
    """A mounted ext4 of `megabytes`, with its image file in `image_dir` (default: the temporary directory)."""

    def __init__(self, megabytes, image_dir=None, options="noatime"):
        self.home = tempfile.mkdtemp(prefix="millstream-disk-", dir=image_dir)
        self.image = os.path.join(self.home, "image")
        self.mount_point = os.path.join(self.home, "mount")
        self.options, self.device, self.mounted, self.frozen = options, None, False, False
        os.mkdir(self.mount_point)
        _live.append(self)
        with open(self.image, "wb") as image:
            image.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", self.image)
        self.device = _run("losetup", "--find", "--show", self.image).strip()
        self.mount()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def data_dir(self):
        return os.path.join(self.mount_point, "data")

    def mount(self):
        _run("mount", "-t", "ext4", "-o", self.options, self.device, self.mount_point)
        self.mounted = True

    def unmount(self):
        """Waits for the last user of a file to be gone."""
        for attempt in range(100):
            done = subprocess.run(["umount", self.mount_point], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                self.mounted = False
                return
            time.sleep(0.05 if attempt < 50 else 0.2)
        raise RuntimeError(f"cannot umount {self.mount_point}: {done.stderr.strip()}")

    def cut_power(self):
        """From here on nothing reaches the disk, and each write and sync fails with EIO."""
        fd = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", SHUTDOWN_NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def remount(self):
        """The power is back: what the disk really holds. No process may have files open."""
        self.unmount()
        self.mount()

    def freeze(self):
        """Every writer hangs (uninterruptible) until `thaw`."""
        self.frozen = True
        _run("fsfreeze", "-f", self.mount_point)

    def thaw(self):
        _run("fsfreeze", "-u", self.mount_point)
        self.frozen = False

    def free_bytes(self):
        stat = os.statvfs(self.mount_point)
        return stat.f_bavail * stat.f_frsize

    def fill(self, leave_bytes=0, name="filler"):
        """A file of zeros (blocks really taken) that leaves `leave_bytes` free; returns its path."""
        path = os.path.join(self.mount_point, name)
        with open(path, "ab") as filler:
            size = filler.tell()
            for piece in (16 << 20, 1 << 20, 64 << 10, 4 << 10):
                while self.free_bytes() - leave_bytes >= piece:
                    try:
                        os.posix_fallocate(filler.fileno(), size, piece)
                    except OSError:
                        break
                    size += piece
        return path

    def counters(self):
        """The block layer's counts since the device was made: writes, bytes written, flushes."""
        with open(f"/sys/block/{os.path.basename(self.device)}/stat") as stat:
            fields = [int(field) for field in stat.read().split()]
        return {"writes": fields[4], "written_bytes": fields[6] * SECTOR, "flushes": fields[15]}

    def close(self):
        """Takes everything away; may be called twice and after any failure."""
        if self.frozen:
            subprocess.run(["fsfreeze", "-u", self.mount_point], capture_output=True, check=False)
            self.frozen = False
        if self.mounted:
            try:
                self.unmount()
            except RuntimeError:
                subprocess.run(["umount", "-l", self.mount_point], check=False)
        if self.device:
            subprocess.run(["losetup", "-d", self.device], check=False)
            self.device = None
        subprocess.run(["rm", "-rf", "--one-file-system", self.home], check=False)
        if self in _live:
            _live.remove(self)


def close_all():
    """Takes away every disk that is left; thaws first, so that nothing hangs."""
    for disk in list(_live):
        if disk.frozen:
            disk.thaw()
    for disk in list(_live):
        disk.close()


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


atexit.register(close_all)
