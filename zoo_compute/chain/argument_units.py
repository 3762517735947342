"""What the numbers of a transaction count, by the name of the argument. tests/chain/test_sentences.py: none is missing, and none is in two."""

MONEY = frozenset(
    (
        "amount",
        "stake",
        "price",
        "reserve",
        "max_price",
        "aggregator_reserve",
        "aggregator_max_price",
        "window_value",
        "value",
        "voucher_total",
        "most",
    )
)  # smallest units of the token that the call is about
DOLLARS = frozenset(("dollars", "next_rate"))  # of 10^-18; a rate: for one ZEN
SECONDS = frozenset(("slot_s", "aggregate_s", "reexecute_s", "delay"))
MOMENTS = frozenset(("deadline",))  # seconds since 1970
PERCENT = frozenset(("audit_bps",))  # hundredths of a per cent
BYTES = frozenset(("size", "total"))
WORDS = frozenset(("gpu_class", "vram_gb", "hours", "tier", "region", "bucket", "kind", "requirements", "seats"))
COUNTS = frozenset(
    (
        "job", "operator", "epoch", "jobs", "count", "places", "cited", "qualities", "capacity",
        "rounds", "slots", "quorum", "flops", "depth", "policy", "v", "nonce", "server", "client", "turn",
        "aggregators", "seat", "channel",
    )
)  # fmt: skip
