#!/usr/bin/env python3
"""As much of kafka-acls.sh as the suite calls: adds and removes rules about a topic."""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "lib"))
import rawkafka  # noqa: E402

OPERATIONS = {"All": 2, "Read": 3, "Write": 4, "Describe": 8}
TOPIC, LITERAL, DENY, ALLOW = 2, 3, 2, 3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--remove", action="store_true")
    parser.add_argument("--force", action="store_true")
    for verb in ("allow", "deny"):
        parser.add_argument(f"--{verb}-principal")
        parser.add_argument(f"--{verb}-host", default="*")
    parser.add_argument("--operation", choices=OPERATIONS, required=True)
    parser.add_argument("--topic", required=True)
    args = parser.parse_args()
    permission = DENY if args.deny_principal else ALLOW
    same = {"principal": args.deny_principal or args.allow_principal, "operation": OPERATIONS[args.operation],
            "host": args.deny_host if args.deny_principal else args.allow_host, "permission_type": permission}
    with rawkafka.Connection(args.bootstrap_server) as connection:
        if args.add:
            rule = dict(same, resource_type=TOPIC, resource_name=args.topic, resource_pattern_type=LITERAL)
            found = connection.call(30, 1, creations=[rule])["results"][0]
        elif args.remove:
            wanted = {"resource_type_filter": TOPIC, "resource_name_filter": args.topic, "pattern_type_filter": LITERAL,
                      "principal_filter": same["principal"], "host_filter": same["host"], "operation": same["operation"],
                      "permission_type": permission}
            found = connection.call(31, 1, filters=[wanted])["filter_results"][0]
        else:
            parser.error("--add or --remove?")
    sys.exit(f"error {found['error_code']} for topic {args.topic}: {found['error_message']}" if found["error_code"] else 0)


if __name__ == "__main__":
    main()
