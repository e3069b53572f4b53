"""F09: an idempotent producer that was silent until it was forgotten goes on as if nothing had been.

Forgotten by its time, by that of all its records, or by both and a restart. shards/ proves that one
with an open transaction is never forgotten (producer_with_an_open_transaction_never_expires).
"""

import pytest
from confluent_kafka import Producer

from bench import topic_made, until
from rawkafka import batch, delete_records, offsets, produce
from rawtxn import READ_COMMITTED, Transactional, end_offset, producers, wait_for_transactions

OUT_OF_ORDER = 45
EXPIRY_MS = 1500
SETTINGS = {"producer.id.expiration.ms": str(EXPIRY_MS), "log.retention.check.interval.ms": "200", "transaction.max.timeout.ms": "60000"}


def forgotten(broker, producer_id=None):
    """Waits until the partition knows the producer, or any, no more."""
    def none():
        with broker.connect() as connection:
            known = producers(connection, "t")
        return not known if producer_id is None else producer_id not in known
    until("the silent producer is forgotten", none, 30)


@pytest.mark.parametrize("way", ["by its time", "with all its records", "and the broker restarted"])
def test_librdkafka_goes_on_after_it_was_forgotten(make_broker, way):
    broker = make_broker(settings=SETTINGS)
    with broker.connect() as connection:
        topic_made(connection, "t")
    errors, taken = [], []
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "error_cb": errors.append, "reconnect.backoff.max.ms": 200})

    def ten():
        for i in range(10):
            producer.produce("t", b"%d" % i, partition=0, on_delivery=lambda error, message: taken.append((error, message.offset())))
        assert producer.flush(30) == 0, "not all was answered"
    ten()
    if way == "with all its records":
        with broker.connect() as connection:
            assert delete_records(connection, "t", 0, -1) == (0, 10)
    forgotten(broker)
    if way == "and the broker restarted":
        broker.kill9()
        broker.start()
    ten()
    assert taken == [(None, i) for i in range(20)]
    assert not [error for error in errors if error.fatal()], errors


def test_forgotten_producer_is_taken_on_with_any_sequence_and_a_known_one_is_not(make_broker):
    broker = make_broker(settings=SETTINGS)
    with broker.connect() as connection:
        topic_made(connection, "t")
        silent, lively = (connection.call(22, 4)["producer_id"] for _ in range(2))

        def send(producer, sequence):
            return produce(connection, "t", 0, batch([b"v"], producer_id=producer, producer_epoch=0, base_sequence=sequence))["error_code"]
        sequence = 0
        assert [send(silent, 0), send(lively, 0)] == [0, 0]

        def gone():
            nonlocal sequence
            sequence += 1
            assert send(lively, sequence) == 0, f"the lively one at {sequence}"
            return silent not in producers(connection, "t")
        until("the silent producer is forgotten", gone, 30, pause=EXPIRY_MS / 5000)
        assert send(lively, sequence + 7) == OUT_OF_ORDER
        assert send(silent, 77) == 0
        assert [send(silent, 77), send(silent, 79), send(silent, 78)] == [0, OUT_OF_ORDER, 0]
        assert offsets(connection, "t", 0)[1] == 4 + sequence


def test_open_transaction_outlives_the_time_of_producers(make_broker):
    broker = make_broker(settings=SETTINGS)
    with broker.connect() as connection:
        topic_made(connection, "t")
        wait_for_transactions(connection)
        one, other = (Transactional(broker.address, name, timeout_ms=60_000).initialise() for name in ("open", "ended"))
        one.sent("t", 0, [b"1"])
        other.sent("t")
        other.ended(True)
        forgotten(broker, other.producer_id)
        assert end_offset(connection, "t", 0, READ_COMMITTED) == 0
        assert one.send("t", 0, [b"gap"], base_sequence=5)["error_code"] == OUT_OF_ORDER
        one.sent("t", 0, [b"2"])
        one.ended(True)
        assert other.sent("t") > 0
        other.ended(True)
        until("all is committed", lambda: end_offset(connection, "t", 0, READ_COMMITTED) == end_offset(connection, "t"))
