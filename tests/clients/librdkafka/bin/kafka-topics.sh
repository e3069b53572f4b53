#!/usr/bin/env python3
"""As much of kafka-topics.sh as the suite calls: create, alter and delete a topic."""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "lib"))
import rawkafka  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--create", action="store_true")
    parser.add_argument("--alter", action="store_true")
    parser.add_argument("--delete", action="store_true")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--replication-factor", type=int, default=1)
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    with rawkafka.Connection(args.bootstrap_server) as connection:
        if args.create:
            configs = dict(config.split("=", 1) for config in args.config)
            error = rawkafka.create_topic(connection, args.topic, args.partitions, configs)
        elif args.alter:
            wanted = {"name": args.topic, "count": args.partitions, "assignments": None}
            error = connection.call(37, 0, topics=[wanted], timeout_ms=10000)["results"][0]["error_code"]
        elif args.delete:
            error = rawkafka.delete_topic(connection, args.topic)
        else:
            parser.error("--create, --alter or --delete?")
    sys.exit(f"error {error} for topic {args.topic}" if error else 0)


if __name__ == "__main__":
    main()
