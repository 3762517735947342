"""CIDs against a real daemon's: the constants were printed by ipfs-daemon 0.16.1 for these very bytes."""

import hashlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo_compute.store import BadCid, cid_of, digest_of, raw_cid
from zoo_compute.store.cid import normalise
from zoo_compute.store.multiformats import DAG_PB, RAW, Cid

# size in bytes -> what `ipfs add --cid-version=1 --raw-leaves` says of content_of(size)
FROM_THE_DAEMON = {
    0: "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
    1: "bafkreihu7f6irraj3tzxrg23kgg2h56sm3ciqbtos6tany4kcudxtcahgu",
    262143: "bafkreich7kiovckj3tsv7ifqethi2onx3ehgtqxsogpax6s2i3xqj3yiqu",
    262144: "bafkreicr6qyanvkc72hse6flcim4tbavnooogsh4ncznhs742pps2at2sy",
    262145: "bafybeifoylh2nocse5dt6kaqh37o4e7wanyfmltuk4xfrzhku2zto4gixq",
    45613056: "bafybeih3mquw5dg3skszno2juyis55a6a5h7cmxvhyaoikpt65dhl6xksu",  # 174 chunks: one node, full
    45613057: "bafybeidlvebxmee5hmyzhvfdxkxvya4zzriygjl3ttqyce5lbugbhtgvba",  # one byte more: three nodes
    45000000: "bafybeibztg5pibahoqnbrvqhr6ywgejzcy7t4h77a6etqagpydgnn3x6k4",
    50000000: "bafybeie4g4q2wgiao6vo5rb6qbqdnjttmxsq7v7fc5vpgesh6njktwyxee",
}


def content_of(size: int) -> bytes:
    return hashlib.shake_128(b"zoo").digest(size)


@pytest.mark.parametrize("size", FROM_THE_DAEMON)
def test_cid__of_known_content__is_what_the_daemon_says(size, tmp_path):
    content = content_of(size)
    assert cid_of(content) == FROM_THE_DAEMON[size]
    (tmp_path / "file").write_bytes(content)
    assert cid_of(tmp_path / "file") == FROM_THE_DAEMON[size]


def test_normalise__base58_of_the_same_cid__is_the_base32():
    assert normalise("zb2rhmy65F3REf8SZp7De11gxtECBGgUKaLdiDj7MCGCHxbDW") == FROM_THE_DAEMON[0]
    assert normalise("QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n") == (
        "bafybeihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
    )
    assert normalise(FROM_THE_DAEMON[0].upper()) == FROM_THE_DAEMON[0]


@given(st.binary(min_size=32, max_size=32), st.sampled_from([RAW, DAG_PB]))
def test_cid__written_and_read__is_the_same(digest, codec):
    cid = Cid(codec, digest)
    assert Cid.parse(cid.text) == Cid.from_binary(cid.binary) == cid
    assert len(cid.text) == 59


@given(st.binary(min_size=32, max_size=32))
def test_raw_cid__and_back__is_the_digest(digest):
    assert digest_of(raw_cid(digest)) == digest


def test_raw_cid__of_a_small_file__is_its_cid():
    assert raw_cid(hashlib.sha256(b"manifest").digest()) == cid_of(b"manifest")


def test_digest_of__a_file_of_several_blocks__is_refused():
    with pytest.raises(BadCid, match="several blocks"):
        digest_of(FROM_THE_DAEMON[262145])


@pytest.mark.parametrize("length", [0, 31, 33])
def test_raw_cid__of_a_digest_of_another_length__is_refused(length):
    with pytest.raises(BadCid, match="32 bytes"):
        raw_cid(bytes(length))


GOOD = FROM_THE_DAEMON[1]
WRONG = {
    "empty": "",
    "truncated": GOOD[:-1],
    "longer": GOOD + "a",
    "padded": GOOD + "=",
    "loose bits": GOOD[:-1] + "v",
    "other alphabet": GOOD[:-1] + "1",
    "mixed case": GOOD[:-2] + "GU",
    "path": "../../../etc/passwd",
    "path in cid": GOOD[:10] + "/" + GOOD[11:],
    "newline": GOOD + "\n",
    "other codec": "bafyreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",  # dag-cbor
    "identity": "bafkqaaa",
    "sha1": "bafkrcfe7s2cpwhaa7vqqgdcwl2k7kzpyhqaay",
    "not base58": "z0OIl",
    "short base58": "Qmabc",
    "huge": "b" + "a" * 10_000,
    "not ascii": "bafkreé" + GOOD[7:],
    "no text": None,
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_parse__what_is_no_cid_of_ours__is_refused(text):
    with pytest.raises(BadCid) as refusal:
        Cid.parse(text)
    assert len(str(refusal.value)) < 400


@given(st.text(max_size=70) | st.from_regex(r"\A(ba[a-z2-7]{57}|Qm\w{44}|z\w{48})\Z"))
def test_parse__any_text__is_a_cid_or_a_bad_cid(text):
    try:
        cid = Cid.parse(text)
    except BadCid:
        return
    assert Cid.parse(cid.text) == cid


def test_chunks__short_reads__do_not_change_the_cid():
    from zoo_compute.store import unixfs

    class Drip(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 1000))

    content = content_of(300_000)
    assert unixfs.build(unixfs.chunks_of(Drip(content))).cid.text == cid_of(content)
