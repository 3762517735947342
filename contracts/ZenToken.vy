# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title ZEN, the token that admits operators
@license AGPL-3.0-only
@notice ERC-20 with EIP-2612 permit and 18 decimals. The whole supply is minted to the deployer; there is no minter,
        no owner and no burn.
@dev A thin deployment of snekmate's erc20, whose licence it therefore carries.
"""


from ethereum.ercs import IERC20
from ethereum.ercs import IERC20Detailed
from snekmate.auth import ownable
from snekmate.tokens import erc20


implements: IERC20
implements: IERC20Detailed


initializes: ownable
initializes: erc20[ownable := ownable]


exports: (
    erc20.IERC20,
    erc20.IERC20Detailed,
    erc20.permit,
    erc20.nonces,
    erc20.DOMAIN_SEPARATOR,
    erc20.eip712Domain,
)


@deploy
def __init__(supply: uint256):
    """
    @param supply The fixed supply, in 10^-18 ZEN, minted to the deployer.
    """
    ownable.__init__()
    erc20.__init__("Zoo", "ZEN", 18, "Zoo", "1")
    erc20._mint(msg.sender, supply)
    # INVARIANT supply: nothing that mints is exported, and nobody is left who could be allowed to.
    erc20.is_minter[msg.sender] = False
    ownable._transfer_ownership(empty(address))
