"""Every key of a job's file: what it means, and the values that it takes. No torch.

`zoo_compute.jobs.sections` checks values against this table; `zoo job schema` and docs/reference/job-file.md are made from it.
"""

from __future__ import annotations

from zoo_compute.amounts import MAX_DECIMALS
from zoo_compute.config_keys import Key, Keys
from zoo_compute.formats.aggregation import MAX_PART, MIN_PART, MIXINGS, OUTER_KINDS, RULES
from zoo_compute.formats.manifest import MAX_CARRY, MAX_CHUNK, POLICIES, REDUNDANCIES
from zoo_compute.gpus import TIERS
from zoo_compute.models import OPTIMIZERS
from zoo_compute.models.presets import MODELS
from zoo_compute.spec.params import (
    BPS,
    MAX_AGGREGATORS,
    MAX_DEPTH,
    MAX_ROUNDS,
    MAX_SECONDS,
    MAX_SLOTS,
    MAX_VRAM_GB,
    MIN_AUDIT_BPS,
    PERIODS,
)
from zoo_compute.training.schedules import CONSTANT, SCHEDULES

_DELAYED = "design/decisions/0019-a-delayed-job-starts-one-checkpoint-behind.md"
_BUILT_IN = "of built-in models and `transformers` only"
_BITS = (1, 2, 3, 4, 5, 6, 7, 8, 32)

MODEL: Keys = {
    "transformers": Key(
        "a causal model: a folder as `save_pretrained` writes it, or `OWNER/NAME@REVISION` of Hugging Face's hub"
    ),
    "lora": Key("beside `transformers`: adapters alone are trained, with the keys `r`, `alpha` and `target_modules`"),
    "module": Key(
        "your function that returns (module, loss, optimizer): FILE.py:FUNCTION or package.module:FUNCTION; all other keys are its arguments"
    ),
    "program": Key("a program file that `repops.save` wrote"),
    "name": Key("a built-in model by name; other keys override its sizes", words=tuple(MODELS)),
    "architecture": Key("of a built-in model whose sizes you give", words=("gpt", "llama"), default="`gpt`"),
    "layers": Key("blocks of a built-in model", 1, 512),
    "heads": Key("attention heads", 1, 512),
    "width": Key("elements of a token's vector; a multiple of `heads`", 1, 2**16),
    "context": Key("tokens of an example", 1, 2**16),
    "vocab": Key("tokens that there are", 2, 2**20, default="256, of a llama 32,000"),
    "tied": Key("the head is the token embedding", default="true, of a llama false"),
    "hidden": Key("of a llama: width of the MLP", 1, 2**18),
    "kv_heads": Key("of a llama: heads of keys and values", 1, 512, default="`heads`"),
    "theta": Key("of a llama: base of the rotary positions", 1.0, 1e9, default="10,000"),
    "norm_epsilon": Key("of a llama: epsilon of its norms", 1e-12, 1.0, default="1e-5"),
}
DATA: Keys = {
    "path": Key(
        "a file or folder, relative to the job's file: text; `.jsonl`, `.parquet` or `.csv`; or one `.npz` or `.safetensors` of arrays"
    ),
    "paths": Key("several of them, of one kind"),
    "dataset": Key(
        "instead: the name or number of a dataset of the network (`zoo dataset list`), or `OWNER/NAME@REVISION` of Hugging Face's hub"
    ),
    "heldout": Key("examples that are not trained on; at least one batch", 0, 2**40),
    "skip": Key("examples that come last, since earlier jobs of the same data and seed trained on them", 0, 2**62),
    "context": Key("tokens of an example of text", 1, 2**20, default="the model's"),
    "split": Key("of a table or a hub's dataset; also a part, `train[:10%]`", default="`train`"),
    "subset": Key("configuration of a hub's dataset that has several"),
    "column": Key("the column with the texts", default="`text`, or the only column of text"),
    "tokenizer": Key(
        "a folder, a `tokenizer.json` or a name of the hub",
        default="the tokenizer of a model of `transformers`, else bytes",
    ),
}
LORA: Keys = {
    "r": Key("rank of the adapters", 1, 4096),
    "alpha": Key("an adapter's change is multiplied by `alpha / r`", 1e-6, 1e6),
    "target_modules": Key(
        "`all-linear` (every linear layer except the output's), or a list of names of layers or their ends"
    ),
}
TRAINING: Keys = {
    "batch_size": Key("examples a step", 1, 2**16),
    "inner_steps": Key("steps a slot and round", 1, 10**6),
    "rounds": Key("rounds: each ends with a checkpoint, from which the next one starts", 1, MAX_ROUNDS),
    "slots": Key("slots a round: parts that train at the same time, on data of their own", 1, MAX_SLOTS),
    "accumulate": Key(
        "a batch comes in so many parts, whose gradients are averaged; it divides `batch_size`", 1, 2**16
    ),
    "clip_norm": Key("largest global L2 norm of the gradients", 0.0, 1e6, default="0 (off)"),
    "lr_scheduler_type": Key(
        "a schedule of the learning rate over the steps of all rounds, as in `transformers`",
        words=(CONSTANT, *SCHEDULES),
    ),
    "warmup_steps": Key(
        "steps over which the learning rate rises: of each round, or with a schedule of the whole job", 0, 10**6
    ),
    "segment_steps": Key(
        "steps between committed states", 1, 10**6, default="a quarter of the inner steps, rounded up, at most 10"
    ),
    "quorum": Key(
        "the least present slots that close a round", 1, MAX_SLOTS, default="two thirds of the slots, rounded up"
    ),
    "seed": Key("of initial weights and shuffling", 0, 2**63 - 1),
    "outer_optimizer": Key("what makes the next checkpoint of the updates", words=OUTER_KINDS),
    "outer_learning_rate": Key("of the outer optimizer", 1e-6, 10.0),
    "outer_momentum": Key("of the outer optimizer; the first beta of `adamw`", 0.0, 0.999),
    "outer_beta2": Key("of the outer `adamw`", 0.0, 0.99999),
    "outer_epsilon": Key("of the outer `adamw`", 1e-12, 1.0),
    "outer_weight_decay": Key("of the outer `adamw`", 0.0, 1.0),
    "carry_rounds": Key(
        "private state (the optimizer's, and what compression kept back) starts at zero every so many rounds",
        1,
        MAX_CARRY,
    ),
    "delay": Key(
        "with 1 a round's slots start from the checkpoint before the newest, so that training does not wait for the exchange. Use "
        "`outer_learning_rate: 0.5` and `outer_momentum: 0` with it, and expect 1 to 2 % more loss "
        f"([decision 19]({_DELAYED}))",
        words=(0, 1),
    ),
    "learning_rate": Key(f"{_BUILT_IN}: of the inner optimizer", 1e-12, 1e3, default="a named model's"),
    "optimizer": Key(f"{_BUILT_IN}: the inner optimizer", words=OPTIMIZERS, default="`adamw`"),
    "beta1": Key(f"{_BUILT_IN}: of `adamw`", 0.0, 0.999999, default="0.9"),
    "beta2": Key(f"{_BUILT_IN}: of `adamw`", 0.0, 0.999999, default="0.95"),
    "epsilon": Key(f"{_BUILT_IN}: of `adamw`", 1e-30, 1.0, default="1e-8"),
    "weight_decay": Key(f"{_BUILT_IN}: of `adamw`, of matrices", 0.0, 100.0, default="0"),
}
MAP: Keys = {
    "batch_size": Key("items a step", 1, 2**16),
    "slots": Key("slots a round: parts of the items that are mapped at the same time", 1, MAX_SLOTS),
    "inner_steps": Key("steps a slot and round, at most: fewer if the items need fewer", 1, 10**6, default="10"),
    "segment_steps": Key(
        "steps between committed states",
        1,
        10**6,
        default="a quarter of the inner steps, rounded up, at most 10 unless it generates",
    ),
    "seed": Key("of initial weights, and of the module's random draws", 0, 2**63 - 1),
    "new_tokens": Key(
        "the items are prompts of a causal model, which generates so many tokens from each ([generation](guides/generation.md))",
        1,
        2**16,
    ),
    "temperature": Key(
        "of drawn tokens: logits are divided by it; 0 takes the likeliest token", 0.0, 100.0, default="0"
    ),
}
COMPRESSION: Keys = {
    "chunk": Key("elements that are compressed together", 16, MAX_CHUNK),
    "keep": Key(
        "the largest elements of each chunk that are sent; with `bits: 1` random ones, on average so many",
        1,
        MAX_CHUNK,
        default="all",
    ),
    "bits": Key(
        "bits of each element; 32 is float32 as it is, 1 sends signs alone, and one magnitude a chunk", words=_BITS
    ),
    "decay": Key(
        "factor of what was kept back, which the slot's next update adds if `carry_rounds` is above 1", 0.0, 1.0
    ),
}
AGGREGATION: Keys = {
    "rule": Key(
        "how a round's updates become one ([which attacks each rule tolerates](guides/aggregation.md)); `sent_mean` is for compressed updates",
        words=RULES,
        default="`trimmed_mean` for 4 to 64 slots whose updates are whole, else `mean`",
    ),
    "hostile": Key(
        "slots that may send anything; a mean has none",
        0,
        MAX_SLOTS // 2,
        default="a quarter of all but one, and at least one from four slots on",
    ),
    "mixing": Key(
        "what each update is replaced by before the rule; a mean has none",
        words=MIXINGS,
        default="`nearest` with the default rule, else `none`",
    ),
    "part_size": Key(
        "values that an aggregator combines at once, of all slots together: larger tensors are cut into parts of whole rows",
        MIN_PART,
        MAX_PART,
    ),
    "aggregators": Key(
        "operators that combine the updates, each its share of the model's tensors and paid for it; several need `rule: mean`, the "
        "outer optimizer `nesterov` and custodians (`checkpoint.redundancy`)",
        1,
        MAX_AGGREGATORS,
    ),
}
CHECKPOINT: Keys = {
    "interval": Key(
        "steps of a slot between the checkpoints that outlive the job: the first round that ends at or after so many steps, again and "
        "again, and the last one. 0 keeps all. `interval: 1000` with 333 inner steps keeps every 4th round, every 1,332 steps",
        0,
        10**10,
    ),
    "redundancy": Key(
        "1 or 2: stores of the job's own nodes that should keep each. 3, 5, 7 or 9: so many custodians, drawn by stake and paid "
        "`market.custody_price`, hold every round's updates and checkpoints, and put up a reserve for it",
        words=REDUNDANCIES,
    ),
    "storage": Key("the embedded store or an IPFS daemon", words=("ipfs",)),
}
LIMITS: Keys = {
    "slot_s": Key("most seconds of a slot-round", 1, MAX_SECONDS, default="from the job's work, at least 120"),
    "aggregate_s": Key("most seconds of an aggregation", 1, MAX_SECONDS, default="from the job's work, at least 60"),
    "reexecute_s": Key("most seconds of a re-execution", 1, MAX_SECONDS, default="from the job's work, at least 30"),
    "depth": Key(
        "turns whose claims may be open to challenge; the next one waits for the oldest, and locks cover as many",
        1,
        MAX_DEPTH,
    ),
    "policy": Key(
        "`tolerate`, or `roll back`: rounds built on a convicted worker's claim run again",
        words=tuple(POLICIES),
        default="`tolerate` where the rule bounds one hostile slot, else `roll back`",
    ),
    "audit_bps": Key(
        "of 10,000 results (slot-rounds and aggregations), how many are drawn for an audit that you pay. With more, lies are found "
        "sooner and operators lock less",
        MIN_AUDIT_BPS,
        BPS,
    ),
}
REQUIREMENTS: Keys = {
    "gpu_class": Key(
        "`consumer`, `professional`, `datacenter` or `apple`; or a list of those that will do", default="any"
    ),
    "vram_gb": Key("memory of one GPU, at least, as registered", 0, MAX_VRAM_GB),
    "admitted": Key(
        "only machines that passed a trial: it shows class and memory. Networks that are no devnet ask for it in every job"
    ),
    "tier": Key(
        "at least this one, promised for this epoch and the next. Missed hours cost stake; the tier's number of GPUs, RAM and link are "
        "declared only",
        words=tuple(TIERS),
    ),
    "hours": Key(
        "at least so many of a day's 24 hours are promised, for this epoch and the next; missed hours cost stake",
        0,
        PERIODS,
    ),
    "region": Key(
        "`AF`, `AN`, `AS`, `EU`, `NA`, `OC` or `SA`, or a country in one, such as `EU-DE`. Operators **declare** it and nobody checks it: "
        "where the law matters, rely on more than this",
        default="any",
    ),
}
MARKET: Keys = {
    "reserve": Key("first price of a slot-round", default="from work and budget"),
    "max_price": Key("highest price of a slot-round", default="from work and budget"),
    "aggregator_reserve": Key("first price of the aggregator, per round", default="from work and budget"),
    "aggregator_max_price": Key("highest price of the aggregator, per round", default="from work and budget"),
    "custody_price": Key(
        "of each custodian, per GiB and round; in another token than ZEN you must set it. Custodians cost a quote's `custody` beside the "
        "escrow, within the budget",
        default="0.02 ZEN",
    ),
    "token": Key(
        "`credits`, or the address of another payment token (`zoo network show` lists them); all amounts of the job are then in it, and the "
        'default reserve is half the maximum. In credits, amounts may be in dollars, such as `"$0.50"`, at the posted rate'
    ),
    "decimals": Key("of that token, for a quote without a network", 0, MAX_DECIMALS, default="the token's"),
}
KEYS: dict[str, Keys] = {
    "model": MODEL,
    "data": DATA,
    "training": TRAINING,
    "map": MAP,
    "compression": COMPRESSION,
    "aggregation": AGGREGATION,
    "market": MARKET,
    "limits": LIMITS,
    "checkpoint": CHECKPOINT,
    "requirements": REQUIREMENTS,
}
ABOUT = {
    "model": "the model: one of `transformers`, `module`, `program`, `name`, or an architecture's sizes",
    "data": "what it is trained on: one of `path`, `paths` and `dataset`",
    "training": "rounds, steps and optimizers",
    "map": "instead of `training`: the module maps each item of the data to its outputs ([map jobs](guides/maps.md))",
    "compression": "how much of a slot's change its update keeps",
    "aggregation": "how a round's updates are combined",
    "market": "prices in whole tokens, as numbers or as text",
    "limits": "clocks, audits, and how far training runs ahead of final claims",
    "checkpoint": "which checkpoints are kept, and by whom",
    "requirements": "what every operator that bids needs",
}
