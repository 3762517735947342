"""A network of real keepers under small jobs and hostile parties in compressed time: what it costs in memory, disk and handles, and
whether an honest operator missed, lost or was paid anything wrongly.

soak        the run and its report
traffic     honest jobs, so many beside each other
hostile     a peer that serves wrong bytes; a submitter that posts nonsense and cancels
resources   memory, handles and disk of an operator's processes, and how much they grew
outcome     deadlines, payments and slashes, from the chain's events alone
"""
