# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Datasets
@license Apache-2.0
@notice Who contributed which data, which datasets a job cites, and what its submitter says they were worth to it.
@dev A score spends nothing but what its own job's fee allows for data: Rewards sees to that.
"""


from .interfaces import IRewards


# What TaskRegistry shows of a job.
struct Job:
    submitter: address
    token: address
    state: uint256
    escrow: uint256
    work_root: bytes32
    state_root: bytes32
    data_root: bytes32
    manifest: bytes32


interface Tasks:
    def jobs(job: uint256) -> Job: view


# Datasets that a job may cite: their numbers fill one word.
LIST_LIMIT: constant(uint256) = 8
NUMBER_BITS: constant(uint256) = 31
NUMBER_MASK: constant(uint256) = 2**31 - 1
MAX_SIZE: constant(uint256) = 2**64 - 1
BEST_SCORE: constant(uint256) = 100
# States of a job.
ENDED: constant(uint256) = 4


tasks: public(immutable(address))
rewards: public(immutable(address))


struct Dataset:
    contributor: address
    root: bytes32
    size: uint256
    cid: bytes32
    name: bytes32


struct Citation:
    cited: DynArray[uint256, LIST_LIMIT]
    scored: bool


# Datasets are numbered 1..dataset_count.
dataset_count: public(uint256)
# dataset -> contributor (160) | size (64)
owner_words: HashMap[uint256, uint256]
# dataset -> root of its tensors
roots: HashMap[uint256, bytes32]
# dataset -> digest in the CID of its file
cids: HashMap[uint256, bytes32]
# dataset -> name; empty without one
names: HashMap[uint256, bytes32]
# name -> the dataset that has it, for ever; 0 for none
named: public(HashMap[bytes32, uint256])
# job -> scored (1) | eight numbers (31 each), the first lowest
citation_words: HashMap[uint256, uint256]


event DatasetContributed:
    dataset: indexed(uint256)
    contributor: indexed(address)
    root: bytes32
    cid: bytes32
    size: uint256
    name: bytes32


event DatasetsCited:
    job: indexed(uint256)
    cited: DynArray[uint256, LIST_LIMIT]


event DatasetsScored:
    job: indexed(uint256)
    qualities: DynArray[uint256, LIST_LIMIT]


@deploy
def __init__(tasks_: address, rewards_: address):
    """
    @param tasks_ Knows the jobs' submitters.
    @param rewards_ Pays the contributors.
    """
    tasks = tasks_
    rewards = rewards_


@external
def contribute(root: bytes32, cid: bytes32, size: uint256, name: bytes32) -> uint256:
    """
    @notice Offers a dataset of the caller's.
    @param root The state root of its tensors.
    @param cid The digest in the CID of its file.
    @param size Bytes.
    @param name Text from the left, zeros behind it; no other dataset has it. Empty for a dataset without a name.
    @return The dataset's number.
    """
    assert root != empty(bytes32), "datasets: zero root"
    assert size > 0 and size <= MAX_SIZE, "datasets: size out of range"
    dataset: uint256 = self.dataset_count + 1
    if name != empty(bytes32):
        # INVARIANT names: a name leads to one dataset, for ever.
        assert self.named[name] == 0, "datasets: name taken"
        self.named[name] = dataset
        self.names[dataset] = name
    self.dataset_count = dataset
    self.owner_words[dataset] = convert(msg.sender, uint256) << 64 | size
    self.roots[dataset] = root
    self.cids[dataset] = cid
    log DatasetContributed(dataset=dataset, contributor=msg.sender, root=root, cid=cid, size=size, name=name)
    return dataset


@external
def cite(job: uint256, cited: DynArray[uint256, LIST_LIMIT]):
    """
    @notice Names the datasets that the caller's job uses, once, before the job is over.
    @param cited Their numbers, ascending.
    """
    record: Job = staticcall Tasks(tasks).jobs(job)
    assert msg.sender == record.submitter, "datasets: not the submitter"
    assert record.state < ENDED, "datasets: job is over"
    assert self.citation_words[job] == 0, "datasets: already cited"
    assert len(cited) > 0, "datasets: nothing cited"
    word: uint256 = 0
    last: uint256 = 0
    offset: uint256 = 0
    for dataset: uint256 in cited:
        assert dataset > 0 and dataset <= min(self.dataset_count, NUMBER_MASK), "datasets: unknown dataset"
        assert dataset > last, "datasets: out of order"
        word |= dataset << offset
        # At most eight times 31: no overflow.
        offset = unsafe_add(offset, NUMBER_BITS)
        last = dataset
    self.citation_words[job] = word
    log DatasetsCited(job=job, cited=cited)


@external
def score(job: uint256, qualities: DynArray[uint256, LIST_LIMIT]):
    """
    @notice Says what each cited dataset was worth to the caller's job, once, when all of the job is paid.
    @param qualities 0..100 for each, in the order of the citation.
    """
    record: Job = staticcall Tasks(tasks).jobs(job)
    assert msg.sender == record.submitter, "datasets: not the submitter"
    word: uint256 = self.citation_words[job]
    assert word != 0, "datasets: nothing cited"
    assert word >> 255 == 0, "datasets: already scored"
    # Escrow is empty once the job is closed: until then claims of it may still be paid, and bring fees.
    assert record.state == ENDED and record.escrow == 0, "datasets: job not settled"
    cited: DynArray[uint256, LIST_LIMIT] = self._numbers(word)
    assert len(qualities) == len(cited), "datasets: one score each"
    for quality: uint256 in qualities:
        assert quality <= BEST_SCORE, "datasets: score out of range"
    self.citation_words[job] = word | 1 << 255
    log DatasetsScored(job=job, qualities=qualities)
    for index: uint256 in range(LIST_LIMIT):
        if index == len(cited):
            break
        owner: uint256 = self.owner_words[cited[index]]
        size: uint256 = owner & MAX_SIZE
        extcall IRewards(rewards).record_data(
            convert(owner >> 64, address), job, qualities[index] * size, BEST_SCORE * size
        )


@external
@view
def datasets(dataset: uint256) -> Dataset:
    """
    @notice Everything stored of a dataset; zeros when there is none.
    """
    owner: uint256 = self.owner_words[dataset]
    return Dataset(
        contributor=convert(owner >> 64, address),
        root=self.roots[dataset],
        size=owner & MAX_SIZE,
        cid=self.cids[dataset],
        name=self.names[dataset],
    )


@external
@view
def citations(job: uint256) -> Citation:
    """
    @notice The datasets that a job cites, and whether its submitter scored them.
    """
    word: uint256 = self.citation_words[job]
    return Citation(cited=self._numbers(word), scored=word >> 255 != 0)


@internal
@pure
def _numbers(word: uint256) -> DynArray[uint256, LIST_LIMIT]:
    """
    @notice The numbers of a citation; 0 ends them.
    """
    cited: DynArray[uint256, LIST_LIMIT] = []
    for index: uint256 in range(LIST_LIMIT):
        dataset: uint256 = word >> (index * NUMBER_BITS) & NUMBER_MASK
        if dataset == 0:
            break
        cited.append(dataset)
    return cited
