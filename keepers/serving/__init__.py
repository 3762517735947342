"""The HTTP server of a serving seat: requests paid by vouchers, answers signed by receipts."""
