"""The words of the report that a reader may not know, as docs/glossary.md has them."""

from __future__ import annotations

from markupsafe import Markup

WORDS = {
    "expected rate": "the group's rate without the rebalance",
    "dip": "the deepest window of 1 s below the expected rate, "
    "in the episode or up to 5 s after it",
    "in a fifth": "the dip in a window of a fifth of its length",
    "area": "the deficit against the expected rate in an episode, in seconds of that rate",
    "recovery": "from a scale step's rebalance until the rate is back at 95 % of the expected rate",
    "handover": "a partition whose work went to a pod of another name",
    "standstill": "the longest time in which the group did nothing although work waited",
    "reversal": "a change of replicas opposite to the previous change",
    "flip": "a reversal without a cause in the load",
    "fidelity": "the source of a number: simulated, processes, kubernetes",
}


def explained(word: str, shown: str = "") -> Markup:
    """Return a word with its meaning, which a pointer on it shows."""
    return Markup('<abbr title="{}">{}</abbr>').format(WORDS[word], shown or word)
