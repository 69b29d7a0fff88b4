"""State how many messages of the planned window were never done, for the time lag's percentiles.

The percentiles are of the messages that were done. A message that was never done has no time lag:
among all messages it comes after each one that was done. So with n messages and u of them never
done, a percentile of all exists only if the n - u others are enough for it, and it is a higher
percentile of those.
"""

from __future__ import annotations

from lagbench.core.measures.model import MeasureModel


class NeverDone(MeasureModel):
    """Messages of the planned window that nothing finished; a dead letter is finished."""

    planned: int  # messages of the planned window
    at_least: int  # proven lost
    at_most: int  # also those that waited at the end, and those of which it is not known

    def leaves(self, percent: int) -> bool:
        """Return whether ``percent`` of the messages may have been done."""
        return 100 * (self.planned - self.at_least) >= percent * self.planned

    def percent_of_done(self, percent: int) -> float | None:
        """Return the percent of the done messages that is surely ``percent`` of all; None: none."""
        done = self.planned - self.at_most
        if done <= 0 or 100 * done < percent * self.planned:
            return None
        return percent * self.planned / done

    @property
    def text(self) -> str:
        """Return the counts in words."""
        least, most = f"{self.at_least:,}", f"{self.at_most:,}"
        count = least if least == most else f"{least} to {most}"
        return f"{count} of {self.planned:,} messages were never done"
