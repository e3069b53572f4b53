"""kill -9 at random moments of a steady load, again and again: the ledger holds.

Idempotent producers go on over every kill and stay exactly-once; consumers
never see a record that a restart takes back; every restart is ready soon.
"""

import random
import time

import pytest

from bench import (ClientProducer, Ledger, Producer, Watcher, budget, load, read_topic, topic_made)

SEED = 9
READY_SECONDS_MAX = 15


def crowd(ledger, address, topic, partitions, seed, rate=60):
    """Plain, acks=1, idempotent and librdkafka producers, two idempotent ones with large or tiny batches, a watcher."""
    how = (("plain", {}), ("one", {"acks": 1}), ("idem", {"idempotent": True}),
           ("tiny", {"idempotent": True, "records": 1, "window": 5}),
           ("large", {"idempotent": True, "records": 150, "value_bytes": 1000, "rate": rate / 20}))
    raw = [Producer(ledger, address, topic, partitions, name, seed=seed, **{"rate": rate, **rest}) for name, rest in how]
    return [*raw, ClientProducer(ledger, address, topic, partitions, rate=rate), Watcher(ledger, address, topic, partitions)]


def finish(threads, ledger):
    """Producers first: the watcher may then see all they wrote."""
    for thread in threads:
        thread.finish()
    assert ledger.counts()["acked"] > 1000, f"hardly any load: {ledger.counts()}"


@pytest.mark.parametrize("shape, partitions, config", [
    ("few partitions", 3, {}),
    ("many partitions and small segments", 40, {"segment.bytes": "196608"}),
], ids=["few partitions", "many partitions and small segments"])
def test_ledger_holds_over_kills_at_random_moments(shape, partitions, config, make_broker):
    ledger, chance, topic = Ledger(), random.Random(f"{SEED}-{shape}"), "killed"
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, topic, partitions, config)
    threads = crowd(ledger, broker.address, topic, partitions, SEED)
    with load(*threads):
        for number in range(budget(12, 120)):
            time.sleep(chance.choice((0.05, 0.3, 0.8, 1.5)) * chance.uniform(0.5, 1.5))
            broker.kill9()
            broker.start(timeout=READY_SECONDS_MAX)
            for thread in threads:
                assert thread.fatal is None, f"seed {SEED}, kill {number}: {thread.name}: {thread.fatal}"
        finish(threads, ledger)
    ledger.verify(read_topic(broker.address, topic, partitions))


def test_killed_during_recovery_it_recovers_at_the_next_start(make_broker):
    """Starts that are killed before they are ready lose nothing and add nothing."""
    ledger, chance, topic = Ledger(), random.Random(SEED), "again"
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, topic, 10, {"segment.bytes": "131072"})
    producers = [Producer(ledger, broker.address, topic, 10, f"p{n}", idempotent=True, rate=200, seed=SEED) for n in range(2)]
    with load(*producers):
        time.sleep(2)
        broker.kill9()
        for _ in range(budget(15, 100)):
            broker.spawn()
            time.sleep(chance.uniform(0, 0.25))
            broker.kill9()
        broker.start(timeout=READY_SECONDS_MAX)
        for producer in producers:
            producer.finish()
    ledger.verify(read_topic(broker.address, topic, 10))


def test_clean_stop_under_load_answers_or_closes_and_the_next_start_has_everything(make_broker):
    ledger, topic = Ledger(), "stopped"
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, topic, 5)
    threads = crowd(ledger, broker.address, topic, 5, SEED)
    with load(*threads):
        for _ in range(budget(4, 20)):
            time.sleep(0.8)
            assert broker.stop() == 0
            broker.start(timeout=READY_SECONDS_MAX)
        finish(threads, ledger)
    ledger.verify(read_topic(broker.address, topic, 5))
