"""F33: an address that no client can use refuses the start, by key and listener; the rest is told and answered.

One Kafka listener or two; MQTT listeners, port mappings and several nodes have
no tests here.
"""

import re
import socket

import pytest

from bench import Connection, Ledger, free_port, one_batch, read_topic, topic_made
from test_startup_errors import _refused


def _brokers(address):
    """[(host, port)] as Metadata and DescribeCluster tell on this connection; both must agree."""
    with Connection(address) as connection:
        table = connection.versions()
        told = [(b["host"], b["port"]) for b in connection.call(3, 4, topics=[])["brokers"]]
        if 60 in table:
            assert told == [(b["host"], b["port"]) for b in connection.call(60, 0)["brokers"]]
        return told


def _with(make_broker, listen, advertised=None, **settings):
    """A broker that is not started, with these listeners."""
    port = int(re.search(r":(\d+)", listen.split("//")[-1].replace("[::]", "").replace("[::1]", "")).group(1))
    chosen = dict(settings)
    if advertised is not None:
        chosen["advertised.listeners"] = advertised
    return make_broker(start=False, port=port, listen=listen, settings=chosen)


IMPOSSIBLE = {
    "wildcard without advertised": ("0.0.0.0:{p}", None, ["0.0.0.0", "listeners", "advertise"]),
    "IPv6 wildcard without advertised": ("[::]:{p}", None, ["::", "listeners", "advertise"]),
    "advertised wildcard": ("127.0.0.1:{p}", "0.0.0.0:{p}", ["advertised.listeners", "0.0.0.0"]),
    "advertised IPv6 wildcard": ("127.0.0.1:{p}", "[::]:{p}", ["advertised.listeners", "::"]),
    "empty host": ("127.0.0.1:{p}", "PLAINTEXT://:{p}", ["advertised.listeners", "host"]),
    "port 0": ("127.0.0.1:{p}", "broker.example.org:0", ["advertised.listeners", "port 0"]),
    "no port": ("127.0.0.1:{p}", "localhost", ["advertised.listeners", "port"]),
    "IPv6 without brackets": ("127.0.0.1:{p}", "::1:{p}", ["advertised.listeners", "bracket"]),
    "name without listener": ("A://127.0.0.1:{p}", "B://127.0.0.1:{p}", ["advertised.listeners", "B"]),
    "duplicate names": ("A://127.0.0.1:{p},A://127.0.0.1:{q}", None, ["listeners", "A"]),
    "two listeners on one port": ("A://127.0.0.1:{p},B://127.0.0.1:{p}", None, ["listeners", "{p}"]),
    "unresolvable name": ("127.0.0.1:{p}", "no-such-host.invalid:{p}", ["advertised.listeners", "no-such-host.invalid"]),
    "TLS without certificates": ("SSL://127.0.0.1:{p}", None, ["SSL"]),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_address_refuses_the_start_and_names_key_and_listener(name, make_broker):
    listen, advertised, words = IMPOSSIBLE[name]
    names = {"p": free_port(), "q": free_port()}
    broker = _with(make_broker, listen.format(**names), advertised and advertised.format(**names))
    _refused(broker, *(word.format(**names) for word in words))


def test_what_is_advertised_is_told_at_start_and_to_clients(make_broker):
    port = free_port()
    broker = _with(make_broker, f"127.0.0.1:{port}", f"localhost:{port}").start()
    assert f"localhost:{port}" in broker.words(), f"the advertised address is not told at start:\n{broker.words()}"
    assert _brokers(broker.address) == [("localhost", port)]


def test_a_name_that_only_clients_can_resolve_is_allowed_on_demand(make_broker):
    port = free_port()
    broker = _with(make_broker, f"127.0.0.1:{port}", "only-outside.invalid:9092", **{"advertised.listeners.resolve": "false"})
    broker.start()
    assert _brokers(broker.address) == [("only-outside.invalid", 9092)]


def test_each_listener_answers_with_its_own_address(make_broker):
    """Internal and external; the external one behind a port mapping."""
    inside, outside = free_port(), free_port()
    broker = _with(make_broker, f"INTERNAL://127.0.0.1:{inside},EXTERNAL://127.0.0.1:{outside}",
                   f"INTERNAL://127.0.0.1:{inside},EXTERNAL://localhost:30092",
                   **{"listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"})
    broker.start()
    assert _brokers(f"127.0.0.1:{inside}") == [("127.0.0.1", inside)]
    assert _brokers(f"127.0.0.1:{outside}") == [("localhost", 30092)]
    ledger = Ledger()
    with Connection(f"127.0.0.1:{outside}") as connection:
        topic_made(connection, "t")
        one_batch(connection, ledger, "t", 0, 3)
    ledger.verify(read_topic(f"127.0.0.1:{inside}", "t", 1))


def test_port_zero_takes_a_free_port_and_tells_it(make_broker):
    broker = make_broker(start=False, listen="127.0.0.1:0")
    broker.start()
    ports = [int(p) for p in re.findall(r"127\.0\.0\.1:(\d+)", broker.words()) if int(p)]
    assert ports, f"the port that was taken is not told:\n{broker.words()}"
    assert _brokers(f"127.0.0.1:{ports[-1]}") == [("127.0.0.1", ports[-1])]


@pytest.mark.skipif(not socket.has_ipv6, reason="left out: no IPv6")
def test_ipv6_literal_is_served_and_told_without_brackets(make_broker):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"left out: no IPv6 loopback ({error})")
    port = free_port()
    broker = _with(make_broker, f"[::1]:{port}").start()
    assert _brokers(f"::1:{port}") == [("::1", port)]
    assert f"[::1]:{port}" in broker.words()


def test_localhost_advertised_to_other_machines_is_a_warning(make_broker):
    port = free_port()
    broker = _with(make_broker, f"0.0.0.0:{port}", f"localhost:{port}").start()
    assert re.search(r"warn", broker.words(), re.I) and "advertised.listeners" in broker.words(), broker.words()
    assert _brokers(broker.address) == [("localhost", port)]


def test_changed_address_is_told_after_the_restart_and_data_stays(make_broker):
    port, ledger = free_port(), Ledger()
    broker = _with(make_broker, f"127.0.0.1:{port}", f"localhost:{port}").start()
    with broker.connect() as connection:
        topic_made(connection, "t")
        one_batch(connection, ledger, "t", 0, 3)
    broker.stop()
    broker.settings["advertised.listeners"] = f"127.0.0.1:{port}"
    broker.start()
    assert _brokers(broker.address) == [("127.0.0.1", port)]
    ledger.verify(read_topic(broker.address, "t", 1))
