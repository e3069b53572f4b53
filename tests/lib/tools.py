"""Brings in what the judges need, once, under target/judges.

Each function returns the paths or commands it promises, or raises `Missing`
with a sentence that a person can act on. Nothing is installed outside the
build directory, except through apt-get when run by root.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"))
HOME = os.path.join(TARGET, "judges")
CLIENTS = os.path.join(ROOT, "tests", "clients")
KAFKA = "4.3.1"
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


class Missing(Exception):
    """A tool is not here and cannot be brought in."""


def call(command, **more):
    """Runs a command; its output goes where ours goes."""
    print("+", " ".join(command), flush=True)
    return subprocess.run(command, check=True, **more)


_apt_updated = False


def apt(*packages):
    """Debian packages, when root."""
    global _apt_updated
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Missing(f"install {' '.join(packages)} (only root with apt-get can do it here)")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    if not _apt_updated:
        call(["apt-get", "-qq", "update"], env=environment)
        _apt_updated = True
    try:
        call(["apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages], env=environment)
    except subprocess.CalledProcessError as error:
        raise Missing(f"apt-get could not install {' '.join(packages)}") from error


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def built(name, *inputs):
    """(directory, whether it is up to date, mark it so) for a tool made of `inputs`."""
    digest = hashlib.sha256()
    for path in inputs:
        with open(path, "rb") as source:
            digest.update(source.read())
    directory, stamp = os.path.join(HOME, name), os.path.join(HOME, f"{name}.stamp")
    os.makedirs(directory, exist_ok=True)
    fresh = os.path.exists(stamp) and open(stamp, encoding="ascii").read() == digest.hexdigest()

    def mark():
        with open(stamp, "w", encoding="ascii") as out:
            out.write(digest.hexdigest())
    return directory, fresh, mark


@functools.cache
def compiler():
    """A C compiler and make, which Rust's linker and some crates call."""
    if not shutil.which("cc") or not shutil.which("make"):
        apt("build-essential")


@functools.cache
def librdkafka_needs():
    """What librdkafka and its tests are built with."""
    compiler()
    if not shutil.which("c++"):
        apt("g++")
    headers = {"zlib.h": "zlib1g-dev", "zstd.h": "libzstd-dev", "lz4.h": "liblz4-dev", "openssl/ssl.h": "libssl-dev",
               "rapidjson/document.h": "rapidjson-dev"}
    lacking = [package for header, package in headers.items() if not os.path.exists(os.path.join("/usr/include", header))]
    if lacking:
        apt(*lacking)


def rust_command(*words):
    """A cargo command line."""
    compiler()
    if not shutil.which("cargo"):
        raise Missing("Rust's cargo (Debian's own is too old: use rustup)")
    return ["cargo", *words]


def crate(manifest, name):
    """The folder in which cargo keeps the sources of a package that `manifest` names."""
    call(["cargo", "fetch", "--locked", "--quiet", "--manifest-path", manifest])
    listed = subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", manifest],
                            capture_output=True, text=True, check=True)
    return next(os.path.dirname(package["manifest_path"]) for package in json.loads(listed.stdout)["packages"]
                if package["name"] == name)


def edit(path, old, new):
    """Replaces a text in fetched sources."""
    with open(path, encoding="utf-8") as source:
        text = source.read()
    if old not in text:
        raise ValueError(f"{path} says {old!r} no more")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text.replace(old, new))


@functools.cache
def kcat():
    """kcat 1.7.1 on an old librdkafka, which is the point of it."""
    if not shutil.which("kcat"):
        apt("kcat")
    version = output("kcat", "-V")
    if "Version 1.7.1" not in version:
        raise Missing(f"kcat 1.7.1 is wanted, this is {version.strip().splitlines()[-1:]}")
    return "kcat"


@functools.cache
def python():
    """A virtual environment with the Python clients; returns its interpreter."""
    return _venv("venv", os.path.join(CLIENTS, "python", "requirements.txt"))


@functools.cache
def fault_python():
    """A virtual environment for the fault bench; returns its interpreter."""
    return _venv("fault-venv", os.path.join(ROOT, "tests", "fault", "requirements.txt"))


@functools.cache
def kafka_python_suite():
    """A virtual environment for the tests of kafka-python; returns its interpreter."""
    return _venv("kafka-python-venv", os.path.join(CLIENTS, "kafka-python", "requirements.txt"))


def _venv(name, wanted):
    directory, fresh, mark = built(name, wanted)
    interpreter = os.path.join(directory, "bin", "python")
    if not fresh or not os.path.exists(interpreter):
        made = subprocess.run(["python3", "-m", "venv", "--clear", directory], check=False)
        if made.returncode:
            apt("python3-venv")
            call(["python3", "-m", "venv", "--clear", directory])
        call([interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "-r", wanted])
        mark()
    return interpreter


@functools.cache
def java():
    """Kafka's jars and our compiled programs; returns the class path."""
    major = re.search(r'version "(\d+)', output("java", "-version") if shutil.which("java") else "")
    if not major or int(major[1]) < 17 or not shutil.which("javac") or not shutil.which("mvn"):
        apt("openjdk-17-jdk-headless", "maven")
    here = os.path.join(CLIENTS, "java")
    sources = sorted(os.path.join(here, name) for name in os.listdir(here) if name.endswith(".java"))
    jars, fresh, mark = built("jars", os.path.join(here, "pom.xml"))
    if not fresh:
        call(["mvn", "-q", "-B", "-f", os.path.join(here, "pom.xml"), f"{DEPENDENCY_PLUGIN}:copy-dependencies",
              "-DincludeScope=runtime", f"-DoutputDirectory={jars}"])
        mark()
    classes, fresh, mark = built("classes", *sources)
    if not fresh:
        call(["javac", "-nowarn", "-cp", os.path.join(jars, "*"), "-d", classes, *sources])
        mark()
    return f"{classes}:{os.path.join(jars, '*')}"


def java_command(*args, heap="512m"):
    """A Java command line with a small heap and little noise."""
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", java(), *args]


@functools.cache
def go():
    """The Go client programs; returns their directory."""
    here = os.path.join(CLIENTS, "go")
    wanted = re.search(r"^go (\d+)\.(\d+)", open(os.path.join(here, "go.mod"), encoding="ascii").read(), re.M)
    found = re.search(r"go(\d+)\.(\d+)", output("go", "version") if shutil.which("go") else "")
    if not found or (int(found[1]), int(found[2])) < (int(wanted[1]), int(wanted[2])):
        raise Missing(f"go {wanted[1]}.{wanted[2]} or newer (Debian 12 has none)")
    sources = [os.path.join(d, f) for d, _, names in os.walk(here) for f in sorted(names)]
    directory, fresh, mark = built("go", *sorted(sources))
    if not fresh:
        call(["go", "build", "-o", directory + os.sep, "./franz", "./franztxn", "./sarama"], cwd=here)
        mark()
    return directory


@functools.cache
def node(least=18):
    """The Node client programs beside their packages; returns their directory."""
    found = re.search(r"v(\d+)", output("node", "--version") if shutil.which("node") else "")
    if not found or not shutil.which("npm"):
        apt("nodejs", "npm")
        found = re.search(r"v(\d+)", output("node", "--version"))
    if int(found[1]) < least:
        raise Missing(f"node {least} or newer, this is {found[0]}")
    here = os.path.join(CLIENTS, "node")
    sources = sorted(os.path.join(here, name) for name in os.listdir(here))
    directory, fresh, mark = built("node", *sources)
    if not fresh:
        for source in sources:
            shutil.copy(source, directory)
        call(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=directory)
        mark()
    return directory


@functools.cache
def rust():
    """The Rust client program; returns its path."""
    here = os.path.join(CLIENTS, "rust")
    environment = dict(os.environ, CARGO_TARGET_DIR=os.path.join(HOME, "cargo"))
    call(rust_command("build", "--release", "--locked", "--quiet"), cwd=here, env=environment)
    return os.path.join(HOME, "cargo", "release", "rskafka-judge")
