"""Which member to believe, per stream: by running error at the step asked for, the better the more.

A member's weight is (least error ÷ its error)⁴, errors being discounted mean squares; two memories, a short one that
notices a change and a long one that is not fooled by luck, are averaged. ML-Poly and Bernstein aggregation and other
powers were tried: within half a per cent of this at one step, and up to two per cent worse at twelve.
"""

from __future__ import annotations

import math

from tidegate.forecast.jit import Floats, Ints, kernel

MEMORIES = (0.98, 0.998)
_NOTHING = 1e-200  # a mean square below is rounding


@kernel
def score(losses: Floats, judged: Ints, guesses: Floats, value: float) -> None:
    """Add an outcome to the running errors (memories × members); NaN guesses are members that had nothing to say.

    `judged` counts the outcomes of each member: its first ones count alike, later ones are discounted.
    """
    for m in range(guesses.shape[0]):
        if math.isnan(guesses[m]):
            continue
        judged[m] += 1
        square = (guesses[m] - value) ** 2
        for memory in range(len(MEMORIES)):
            pace = max(1.0 - MEMORIES[memory], 1.0 / judged[m])
            if judged[m] == 1:  # late comers have to earn their weight
                losses[memory, m] = max(square, losses[memory, 0])
            else:
                losses[memory, m] += pace * (square - losses[memory, m])
            if losses[memory, m] < _NOTHING:
                losses[memory, m] = 0.0


@kernel
def weigh(losses: Floats, guesses: Floats, weights: Floats) -> None:
    """The members' weights, summing to 1; all on the first member while nothing is known."""
    members = guesses.shape[0]
    weights[:] = 0.0
    for memory in range(len(MEMORIES)):
        least = math.inf
        for m in range(members):
            if not math.isnan(guesses[m]) and losses[memory, m] < least:
                least = losses[memory, m]
        if least == math.inf:
            weights[0] += 1.0 / len(MEMORIES)
            continue
        total = 0.0
        for m in range(members):
            total += _weight(least, losses[memory, m], guesses[m])
        for m in range(members):
            weights[m] += _weight(least, losses[memory, m], guesses[m]) / (total * len(MEMORIES))


@kernel
def _weight(least: float, loss: float, guess: float) -> float:
    if math.isnan(guess) or math.isnan(loss):
        return 0.0
    if loss <= least:
        return 1.0
    ratio = least / loss
    return ratio * ratio * ratio * ratio
