"""The reaction chain, from the load step to the first record of a new pod."""

from lagbench.core.measures.reaction.chain import Reaction
from lagbench.core.measures.reaction.stamps import ReactionInput
from lagbench.core.measures.reaction.worst import worst_reaction

__all__ = [
    "Reaction",
    "ReactionInput",
    "worst_reaction",
]
