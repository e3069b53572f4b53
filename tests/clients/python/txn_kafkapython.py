"""kafka-python with transactions. Usage: see txn_common.py."""

import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from txn_common import PARTITIONS, TIMEOUT_MS, aborts, main, show

PATIENCE_SECONDS = 30


def transact(bootstrap, topic, name, count):
    client = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    client.init_transactions()
    for i in range(int(count)):
        client.begin_transaction()
        for sent in [client.send(topic, f"{name}:{i}:{p}".encode(), partition=p) for p in PARTITIONS]:
            sent.get(timeout=PATIENCE_SECONDS)
        if aborts(i):
            client.abort_transaction()
            show(aborted=i)
        else:
            client.commit_transaction()
            show(committed=i)
    client.close()


def committed(bootstrap, topic, count):
    client = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed", fetch_max_wait_ms=100)
    wanted = [TopicPartition(topic, p) for p in sorted(client.partitions_for_topic(topic))]
    client.assign(wanted)
    for where in wanted:
        client.seek(where, 0)
    seen, until = 0, time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        for batch in client.poll(timeout_ms=200).values():
            for record in batch:
                show(record=[record.partition, record.offset, record.value.decode()])
                seen += 1
        if seen >= int(count):
            until = min(until, time.monotonic() + 1)
    client.close()


if __name__ == "__main__":
    main(sys.modules[__name__])
