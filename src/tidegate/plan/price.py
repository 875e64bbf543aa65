"""The price of rows over the objective. It rises smoothly as the error budget burns."""

from __future__ import annotations

import numpy as np

from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.table import Floats
from tidegate.plan.requirements import CountedRow


def price_of_lateness(seen: ApplicationEvaluation, evaluation: Evaluation, late_rows: Floats, rows: Floats) -> Floats:
    """4 · burn², where burn is the share of the window's error budget that will be spent. No cliff, and no saving up.

    1 is the cost of the largest pool, so half a budget is worth any pool and a tenth of it is worth none. Beyond a
    whole budget the price is linear, so that rows that cannot be saved do not become ever more expensive.
    """
    budgets, place = evaluation.budgets, seen.place
    allowed = float(budgets.allowed[place])
    burn = (budgets.late[place] + late_rows) / (allowed * np.maximum(budgets.rows[place] + rows, 1.0))
    ahead = late_rows / (allowed * np.maximum(rows, 1.0))
    # What is already spent cannot be recovered. It makes the rest more expensive, but only new rows have a price.
    price = 4.0 * ahead * np.minimum(np.maximum(burn, ahead), 1.0)
    return _weighted(price, seen, evaluation)


def price_of_row(
    row: CountedRow, seen: ApplicationEvaluation, evaluation: Evaluation, over_rows: Floats, rows: Floats
) -> Floats:
    """The same for a row of a QoS table, with its own share. Its window counts for as much as the objective's."""
    before = float(evaluation.budgets.rows[seen.place])
    burn = row.burn((row.past * before + over_rows) / np.maximum(before + rows, 1.0))
    ahead = row.burn(over_rows / np.maximum(rows, 1.0))
    return _weighted(4.0 * ahead * np.minimum(np.maximum(burn, ahead), 1.0), seen, evaluation)


def price_of_utility(utility: Floats, seen: ApplicationEvaluation, evaluation: Evaluation) -> Floats:
    """The utility that each candidate falls short of the best one. A whole utility is worth the largest pool."""
    return _weighted(utility.max(axis=0) - utility, seen, evaluation)


def _weighted(price: Floats, seen: ApplicationEvaluation, evaluation: Evaluation) -> Floats:
    weights = evaluation.promises.weight
    return np.asarray(price * weights[seen.place] / weights.max())
