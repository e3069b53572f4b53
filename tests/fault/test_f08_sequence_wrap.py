"""F08: the sequence of a producer begins anew behind 2147483647, also over a kill and in transactions.

tests/clients/promises.py has what one broker answers while it lives, shards/src/producers the rules.
"""

import pytest

from bench import topic_made
from rawkafka import Connection, batch, offsets, produce
from rawtxn import READ_COMMITTED, Transactional, end_offset, read, until_state, wait_for_transactions

OUT_OF_ORDER, INVALID_RECORD = 45, 87
LAST = 2_147_483_647


def sequenced(producer_id, first, count=1):
    return batch([b"%d" % i for i in range(count)], producer_id=producer_id, producer_epoch=0, base_sequence=first)


@pytest.mark.parametrize("first,count,follows", [(LAST - 7, 8, 0), (LAST - 2, 6, 3)], ids=["between batches", "inside one"])
def test_sequence_goes_on_behind_the_largest_over_a_kill(make_broker, first, count, follows):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "t")
        producer = connection.call(22, 4)["producer_id"]
        for _ in range(3):  # and two retries
            assert answer(connection, sequenced(producer, first, count)) == (0, 0)
        assert answer(connection, sequenced(producer, follows + 1))[0] == OUT_OF_ORDER
    broker.kill9()
    broker.start()
    with broker.connect() as connection:
        assert answer(connection, sequenced(producer, first, count)) == (0, 0)
        assert answer(connection, sequenced(producer, follows + 1))[0] == OUT_OF_ORDER
        for _ in range(3):
            assert answer(connection, sequenced(producer, follows)) == (0, count)
        assert answer(connection, sequenced(producer, -2))[0] == INVALID_RECORD
        assert offsets(connection, "t", 0) == (0, count + 1)


def test_transaction_goes_on_behind_the_largest_sequence_over_a_kill(make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "t")
        wait_for_transactions(connection)
    one = Transactional(broker.address, "wraps", v2=False).initialise()
    one.sequences["t", 0] = LAST - 2
    assert one.sent("t", 0, [b"%d" % i for i in range(6)]) == 0
    broker.kill9()
    broker.start()
    one.connection = Connection(broker.address)
    one.sequences["t", 0] = 3
    assert one.send("t", 0, [b"gap"], base_sequence=4)["error_code"] == OUT_OF_ORDER
    assert one.sent("t", 0, [b"next"]) == 6
    one.ended(True)
    with broker.connect() as connection:
        until_state(connection, "wraps", "CompleteCommit")  # the answer does not wait for markers
        assert read(connection, "t") == [*((i, b"%d" % i) for i in range(6)), (6, b"next")]
        assert end_offset(connection, "t", 0, READ_COMMITTED) == end_offset(connection, "t")


def answer(connection, raw):
    row = produce(connection, "t", 0, raw)
    return row["error_code"], row["base_offset"]
