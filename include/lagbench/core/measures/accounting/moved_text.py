"""Say in words what a growth of the topic did to the order of keys."""

from __future__ import annotations

from lagbench.core.measures.accounting.accounting import Accounting


def moved_text(found: Accounting) -> str:
    """Return a sentence on the keys that moved; empty if the topic did not grow."""
    moved = found.moved
    if moved is None:
        return ""
    text = f"the topic grew: {moved.keys:,} keys ({moved.messages:,} messages) moved partition"
    if not moved.overtaken and not moved.overtaken_in_doubt:
        return f"{text}, and each kept its order"
    parts = []
    if moved.overtaken:
        seconds = "" if moved.most_seconds is None else f", by up to {moved.most_seconds:.1f} s"
        parts.append(
            f"{moved.overtaken:,} messages of {moved.overtaken_keys:,} of them were begun after a "
            f"later one of their key in another partition{seconds}"
        )
    if moved.overtaken_in_doubt:
        parts.append(f"{moved.overtaken_in_doubt:,} are in doubt between two clocks")
    return f"{text}; {', and '.join(parts)} (Kafka keeps an order only within a partition)"
