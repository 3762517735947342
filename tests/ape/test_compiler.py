"""What ape compiles is what is deployed: the other tests here take the committed artifacts."""

import ape
import pytest

from tests.support import sources


@pytest.mark.parametrize("name", ["Datasets", "Treasury"])
def test_ape__compiles_a_contract__to_the_bytecode_of_its_artifact(name):
    (made,) = ape.compilers.compile([sources.CONTRACTS / f"{name}.vy"], project=ape.project)
    assert made.name == name
    assert made.deployment_bytecode.bytecode == f"0x{sources.load(name).bytecode.hex()}"
