"""What the transactional programs share: their verbs.

    PROGRAM transact  BOOTSTRAP TOPIC ID COUNT            COUNT transactions one after the other
    PROGRAM committed BOOTSTRAP TOPIC COUNT               reads COUNT committed records, and what comes in a second more
    PROGRAM pipe      BOOTSTRAP SOURCE TARGET GROUP ID    from one topic to the other, until SIGTERM

`transact` is the producer ID: its transaction i writes "ID:i:p" to the
partitions p 0, 1 and 2 of the topic and waits until they are there. Where
`aborts(i)` holds it is aborted, else committed; it prints JSON lines at once: {"committed": i} or
{"aborted": i}. `committed` is a reader of committed records, from the
start, of all partitions; it prints {"record": [partition, offset, value]}.

`pipe` is a member of GROUP (where it can, a static one with the name ID) that
takes committed records of the partitions of SOURCE and writes the same values
to the same partitions of TARGET, each poll one transaction of the producer ID
that commits the offsets too. A transaction may last ten seconds. It prints
{"committed": count} after each. On any trouble that it cannot abort it ends
with exit code 1, to be started again.
"""

import sys

from common import Stopped, show  # noqa: F401  (for the programs)

TIMEOUT_MS = 10_000
PARTITIONS = (0, 1, 2)
MANY = 20  # records of one poll, where the client can say so


def aborts(i):
    return i % 3 == 2


def main(client):
    verb, *rest = sys.argv[1:]
    try:
        getattr(client, verb)(*rest)
    except Exception as error:
        print(f"{verb} {' '.join(rest)}: {error!r}", file=sys.stderr)
        raise SystemExit(1) from error
