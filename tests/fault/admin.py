"""The broker's admin listener, as a supervisor and a scraper see it."""

import http.client
import json
import re
import time

from broker import free_port

SECONDS_MAX = 0.1  # whatever the disk does


class Admin:
    """Asks, and keeps how long each answer took. Give `settings` to the broker."""

    def __init__(self):
        self.port = free_port()
        self.settings = {"admin.listener": f"127.0.0.1:{self.port}"}
        self.seconds = []

    def get(self, path):
        """(status, body)"""
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        self.seconds.append(time.monotonic() - began)
        return answer.status, body

    def health(self):
        status, body = self.get("/healthz")
        assert status == 200, f"/healthz: {status} {body}"
        return json.loads(body)

    def sum(self, name, label=""):
        """The sum of all series of a metric, of those whose labels hold `label`."""
        status, body = self.get("/metrics")
        assert status == 200, f"/metrics: {status} {body}"
        lines = [line for line in body.splitlines() if re.split("[{ ]", line, maxsplit=1)[0] == name and label in line]
        assert lines, f"no series of {name} {label}"
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def assert_quick(self):
        """Answers came within the bound; one in twenty may have met a busy machine."""
        slow = [seconds for seconds in self.seconds if seconds > SECONDS_MAX]
        assert len(slow) <= len(self.seconds) // 20, f"{len(slow)} of {len(self.seconds)} took long: {sorted(slow)[-5:]}"
