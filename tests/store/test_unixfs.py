"""The layout of files: what `build` makes is accepted, and nothing else is, however well it is hashed."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoo_compute.store import ContentRefused, dag, unixfs
from zoo_compute.store.multiformats import DAG_PB, RAW, Cid
from zoo_compute.store.unixfs import CHUNK, WIDTH, Link, encode_node

LEAF = bytes(CHUNK)


class Blocks(dict):
    """Blocks by CID, that counts how often it is asked."""

    asked = 0

    def put(self, cid: Cid, block: bytes) -> None:
        self[cid] = block

    def node(self, links: list[Link]) -> Link:
        """Put a node over any links, however wrong, under its true CID."""
        return self.raw_node(encode_node(links), links)

    def raw_node(self, block: bytes, links: list[Link]) -> Link:
        cid = Cid.of_block(DAG_PB, block)
        self[cid] = block
        total = len(block) + sum(link.total for link in links)
        return Link(cid, sum(link.size for link in links), total)

    def leaf(self, content: bytes) -> Link:
        cid = Cid.of_block(RAW, content)
        self[cid] = content
        return Link(cid, len(content), len(content))

    def __call__(self, cid: Cid) -> bytes:
        self.asked += 1
        assert self.asked < 1000, "the reader does not stop"
        return self[cid]


def read(cid: Cid, blocks: Blocks, max_bytes: int = unixfs.MAX_CONTENT) -> int:
    root = dag.root_of(cid, blocks, max_bytes)
    return sum(len(dag.fetch_chunk(leaf, blocks)) for leaf in dag.leaves(root, blocks))


@pytest.fixture
def small_chunks():
    """Chunks of 16 bytes, so that deep trees take little time. The real size is held to a daemon's CIDs elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unixfs, "CHUNK", 16)
        yield 16


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(full=st.integers(0, 3 * WIDTH + 2), rest=st.integers(0, 15))
def test_walk__what_build_makes__is_accepted_with_its_size(small_chunks, full, rest):
    blocks = Blocks()
    chunks = [bytes(small_chunks)] * full + [bytes(rest)] * (rest > 0 or full == 0)
    built = unixfs.build(chunks, blocks.put)
    root = dag.root_of(built.cid, blocks)
    assert root == built
    assert [leaf.size for leaf in dag.leaves(root, blocks)] == [len(chunk) for chunk in chunks]


@pytest.mark.parametrize("chunks", [WIDTH**2 - 1, WIDTH**2, WIDTH**2 + 1, WIDTH**2 + WIDTH + 1])
def test_walk__around_the_third_level__every_leaf_is_reached(small_chunks, chunks):
    blocks: dict[Cid, bytes] = {}
    many = itertools.repeat(bytes(small_chunks), chunks - 1)
    root = unixfs.build(itertools.chain(many, [b"end"]), blocks.__setitem__)
    assert root.depth == (2 if chunks <= WIDTH**2 else 3)
    assert dag.root_of(root.cid, blocks.__getitem__) == root
    assert sum(1 for _ in dag.leaves(root, blocks.__getitem__)) == chunks


@pytest.fixture
def blocks():
    return Blocks()


def refused(blocks: Blocks, root: Link, why: str, *, asks: int) -> None:
    with pytest.raises(ContentRefused, match=why):
        read(root.cid, blocks)
    assert blocks.asked <= asks


def test_read__junk_under_a_true_hash__is_refused(blocks):
    for junk in (b"", b"\x12", b"\x12\x80", b"\xff" * 50, b"\x0a\x02\x08\x01", bytes(CHUNK), b"\x12" + b"\x80" * 100):
        refused(blocks, blocks.raw_node(junk, []), "not a dag-pb node|canonical", asks=10)


def test_read__trailing_garbage__is_refused(blocks):
    links = [blocks.leaf(LEAF), blocks.leaf(b"end")]
    refused(blocks, blocks.raw_node(encode_node(links) + b"\x00", links), "not", asks=3)
    refused(blocks, blocks.raw_node(encode_node(links) + b"\x20\x00", links), "not", asks=6)


def test_read__data_before_links__is_refused(blocks):
    links = [blocks.leaf(LEAF), blocks.leaf(b"end")]
    block = encode_node(links)
    at = block.rindex(b"\x0a", 0, -8)
    refused(blocks, blocks.raw_node(block[at:] + block[:at], links), "not", asks=3)


def test_read__more_links_than_a_node_has__is_refused_at_the_node(blocks):
    refused(blocks, blocks.node([blocks.leaf(LEAF)] * (WIDTH + 1)), "more than 174", asks=2)
    refused(blocks, blocks.node([blocks.leaf(b"")] * 40_000), "more than 174", asks=4)


def test_read__fewer_links_than_fit__is_refused(blocks):
    pair = blocks.node([blocks.leaf(LEAF)] * 2)
    refused(blocks, blocks.node([pair, pair]), "do not split", asks=3)


def test_read__a_chain_of_nodes__is_refused_at_its_top(blocks):
    link = blocks.node([blocks.leaf(LEAF), blocks.leaf(b"end")])
    for _ in range(500):
        link = blocks.node([link])
    refused(blocks, link, "do not split|wrong kind", asks=3)


def test_read__sizes_that_lie__are_refused(blocks):
    leaf, end = blocks.leaf(LEAF), blocks.leaf(b"end")
    for links in (
        [leaf, replace(end, size=end.size + 1)],
        [replace(leaf, total=leaf.total + 1), end],
        [replace(leaf, size=0), end],
        [leaf, replace(end, size=2**30, total=2**30)],
        [end, leaf],
        [leaf, end, blocks.leaf(b"")],
        [blocks.leaf(b"one"), blocks.leaf(b"two")],
    ):
        blocks.asked = 0
        refused(blocks, blocks.node(links), "not a file as|but its file says", asks=5)


def test_read__a_leaf_shorter_than_promised__is_refused(blocks):
    short = blocks.leaf(b"short")
    lie = replace(short, size=CHUNK, total=CHUNK)
    refused(blocks, blocks.node([lie, blocks.leaf(b"end")]), "but its file says", asks=4)


def test_read__a_node_where_a_leaf_belongs__is_refused(blocks):
    node = blocks.node([blocks.leaf(LEAF)] * 2)
    refused(blocks, blocks.node([replace(node, size=CHUNK, total=CHUNK), blocks.leaf(b"end")]), "wrong kind", asks=3)


def test_read__an_inner_total_that_lies__is_refused_at_that_node(blocks):
    full = blocks.node([blocks.leaf(LEAF)] * WIDTH)
    last = blocks.node([blocks.leaf(b"end")])
    refused(blocks, blocks.node([full, replace(last, total=last.total + 1)]), "not the one announced", asks=200)


def test_read__one_chunk_under_a_needless_node__is_refused(blocks):
    refused(blocks, blocks.node([blocks.leaf(b"small")]), "without a node above", asks=2)


def test_read__a_raw_block_above_256_kib__is_refused(blocks):
    refused(blocks, blocks.leaf(bytes(CHUNK + 1)), "more than", asks=2)


def test_read__a_bomb_of_one_block_repeated__is_refused_by_the_bound_before_it_is_read(blocks):
    link = blocks.leaf(LEAF)
    for depth in range(1, 6):  # 174**5 leaves: 42 petabytes in six blocks
        link = replace(blocks.node([link] * WIDTH), depth=depth)
    with pytest.raises(ContentRefused, match="more than the"):
        read(link.cid, blocks)
    assert blocks.asked == 1


def test_root__at_the_callers_bound__is_accepted_and_above_it_refused(blocks):
    root = unixfs.build([LEAF, b"end"], blocks.put)
    assert read(root.cid, blocks, root.size) == root.size
    with pytest.raises(ContentRefused, match=f"{root.size} bytes"):
        read(root.cid, blocks, root.size - 1)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_read__any_change_of_a_true_node__is_refused(data):
    """The law of `links_of`: the same bytes have no other DAG."""
    blocks = Blocks()
    honest = unixfs.build([LEAF, LEAF, b"end"], blocks.put)
    block = bytearray(blocks[honest.cid])
    at = data.draw(st.integers(0, len(block) - 1))
    how = data.draw(st.sampled_from(["flip", "cut", "insert", "append"]))
    if how == "flip":
        block[at] ^= data.draw(st.integers(1, 255))
    elif how == "cut":
        del block[at : at + data.draw(st.integers(1, 20))]
    else:
        block[at if how == "insert" else len(block) : at] = data.draw(st.binary(min_size=1, max_size=20))
    hostile = blocks.raw_node(bytes(block), [])
    if hostile.cid == honest.cid:
        return
    # A flipped digest points to a block that nobody has; every other change is refused at sight.
    with pytest.raises((ContentRefused, KeyError)):
        read(hostile.cid, blocks)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_parse_node__any_bytes__are_refused_or_canonical(junk):
    try:
        links = unixfs.parse_node(Cid.of_block(DAG_PB, junk), junk)
    except ContentRefused:
        return
    assert encode_node(links) == junk
