# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title GPU classes
@license Apache-2.0
@notice What a machine must have to claim a class, and what its verified compute weighs. Source: ZIP-0407.
"""


CONSUMER: constant(uint256) = 1
PROFESSIONAL: constant(uint256) = 2
DATACENTER: constant(uint256) = 3
APPLE_SILICON: constant(uint256) = 4


@internal
@pure
def _least_vram_gb(gpu_class: uint256) -> uint256:
    if gpu_class == PROFESSIONAL:
        return 16
    if gpu_class == DATACENTER:
        return 40
    return 8


@internal
@pure
def _multiplier(gpu_class: uint256) -> uint256:
    if gpu_class == CONSUMER:
        return 100
    if gpu_class == PROFESSIONAL:
        return 150
    if gpu_class == DATACENTER:
        return 300
    if gpu_class == APPLE_SILICON:
        return 80
    return 0
