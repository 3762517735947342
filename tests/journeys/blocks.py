"""Code blocks of the documentation that no journey runs: where each is run instead, or why it is not.

`tests/repository/test_blocks.py` fails for a block of any page that is neither here nor in a journey.
"""

from __future__ import annotations

COMMANDS = "tests/cli/test_guide_commands.py"
SYSTEMD, REMOTE = "tests/integration/test_systemd_units.py", "tests/integration/test_remote_worker.py"
CHANNELS = "tests/integration/test_cli_channel.py"
MACHINES, TESTNETS = "tests/cli/test_several_machines.py", "tests/integration/test_testnets.py"
GENERATION = "tests/integration/test_keepers_generation.py"
SHOWN = "shows what a command prints, on a network that has it"
SERVING = "tests/integration/test_cli_serving.py"
WINDOWS = "is typed in Windows, or into a file of Windows"

# page -> a text in the block -> the test that runs it, or the reason why nothing does.
ELSEWHERE: dict[str, dict[str, str]] = {
    "README.md": {"make demo": "continuous integration clones, and runs what `make demo` runs"},
    "docs/guides/chaos.md": {"benchmarks/chaos.py": "takes half an hour; `make chaos` fires the same faults"},
    "docs/guides/credits.md": {
        "zoo credits buy": "tests/integration/test_cli_credits.py",
        "market: {token": "tests/integration/test_cli_credits.py",
        "zoo credits pledge": "tests/integration/test_credit_story.py",
        "zoo credits post-rate": "tests/integration/test_cli_credits.py",
    },
    "docs/guides/generation.md": {
        "new_tokens: 48": GENERATION,
        "--data prompts.txt": GENERATION,
        "Client().generate": GENERATION,
    },
    "docs/guides/hardware.md": {
        "zoo node conformance": "tests/node/test_conformance_process.py",
        "make gpu": "needs a GPU",
    },
    "docs/guides/huggingface.md": {
        "zoo-compute[hf]": "a journey installs it with the extra of the devnet",
        "openai-community/gpt2@": "needs the hub",
        "lora: {": "tests/client/test_lora.py",
        "PeftModel": "tests/client/test_lora.py",
    },
    "docs/guides/money.md": {
        "--deny": COMMANDS,
        "--price-script": COMMANDS,
        "| ./price.py": "shows an answer to a question with fields left out; tests/keepers/test_price_script.py asks it whole ones",
        "job 7: bids": SHOWN,
        "zoo node estimate\n": "tests/cli/test_node_estimate.py",
        "$ zoo node earnings": SHOWN,
        "zoo channel open": CHANNELS,
        "zoo channel close": CHANNELS,
        "client_book(": CHANNELS,
    },
    "docs/guides/monitoring.md": {
        "--metrics-port": COMMANDS,
        "useradd": SYSTEMD,
        "docker build": "needs docker",
        "flower": "installs another project beside ours, and needs a broker that it may read",
    },
    "docs/guides/multisig.md": {
        "zoo node deposit 250": "shortens addresses; tests/cli/test_sending.py prints unsigned transactions",
        "zoo train job.yaml": "shortens addresses; tests/cli/test_sending.py prints batches for a Safe",
    },
    "docs/guides/operating.md": {"$ zoo node status": SHOWN, "--endpoint": COMMANDS},
    "docs/guides/separation.md": {
        "--signer": COMMANDS,
        "openssl req": REMOTE,
        "tls-port": REMOTE,
        "--name alpha-2": REMOTE,
    },
    "docs/guides/inference.md": {
        "zoo complete": "tests/integration/test_cli_inference.py",
        "zoo proxy": "tests/integration/test_cli_inference.py",
        "zoo serving dispute": "tests/integration/test_receipt_disputes.py",
        "Client().inference": "needs a served model; tests/serving/test_inference.py asks one",
    },
    "docs/guides/serving.md": {
        "serve: {kind": "tests/jobs/test_services.py",
        "zoo serving publish": SERVING,
        "zoo serving take": SERVING,
        "zoo serving start": SERVING,
        "zoo serving leave": SERVING,
    },
    "docs/guides/several-machines.md": {
        "runuser": MACHINES,
        "for GPU in 0 1 2 3 4 5 6 7; do\n": MACHINES,
        "zoo-worker@.service": "needs eight GPUs; tests/integration/test_systemd_units.py starts the other units",
    },
    "docs/guides/testnets.md": {
        "--dry-run": TESTNETS,
        "gas in 32 transactions": SHOWN,
        "--auto": TESTNETS,
    },
    "docs/guides/upgrading.md": {
        "ape run deploy": "needs a main network; tests/integration/test_testnets.py deploys with production's numbers"
    },
    "docs/guides/verify.md": {"$ zoo dispute list": SHOWN},
    "docs/reference/errors.md": {"ZooError": "is a drawing"},
    "docs/reference/job-file.md": {"zoo job schema": COMMANDS},
    "docs/reference/operator-json.md": {"zoo node schema": COMMANDS},
    "docs/tutorials/first-job.md": {"-m venv": "a journey's machine has its virtual environment"},
    "docs/tutorials/first-node.md": {
        "wsl --install": WINDOWS,
        "networkingMode": WINDOWS,
        "FirewallHyperVRule": WINDOWS,
        "portproxy": WINDOWS,
        "nvidia-smi": "needs a GPU",
        "--endpoint": COMMANDS,
    },
}
