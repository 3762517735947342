#!/usr/bin/env python3
"""A price script for operator.json (docs/guides/money.md): cost of power and gas plus a margin, by the hour and the submitter.

Reads one JSON object from standard input, prints the price of one unit in whole tokens. A message on standard error and an exit code
other than 0: no bid.
"""

import json
import sys
import time

FRIENDS = {"0x00000000000000000000000000000000000000aa"}  # served at cost
LEAST = 0.2  # below this it is not worth the wear, in ZEN a slot-round
PER_HOUR = 1.5  # wanted for an hour of this machine, in ZEN
NIGHT = range(0, 7)  # power is cheap, and nobody else needs the card
GAS_PER_ROUND = 150_000  # of a commitment and its payment, in a round


def main() -> int:
    job = json.load(sys.stdin)
    if job["token"]["symbol"] != "ZEN":
        print(f"no price in {job['token']['symbol']}", file=sys.stderr)
        return 1
    if job["longest_s"] > 14 * 86_400:
        print(f"it would bind {job['locks']} ZEN for up to {job['longest_s'] // 86_400} days", file=sys.stderr)
        return 1
    seconds = job["measured"]["slot_s"] if job["role"] == "provider" else job["measured"]["aggregation_s"]
    gas = GAS_PER_ROUND * job["base_fee_gwei"] * 1e-9 * float(job["coin_price"]) / job["units"]
    cost = float(job["power_zen"]) + gas
    is_friend = job["submitter"].lower() in FRIENDS
    margin = 0 if is_friend else seconds / 3_600 * PER_HOUR
    if time.localtime().tm_hour in NIGHT:
        margin /= 2
    print(f"{max(0 if is_friend else LEAST, (cost + margin) / 0.95):.6f}")  # 5 % of what is paid goes to the treasury
    return 0


if __name__ == "__main__":
    sys.exit(main())
