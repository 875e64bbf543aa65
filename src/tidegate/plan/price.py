"""The price of rows over the objective. It rises smoothly as the error budget burns."""

from __future__ import annotations

import numpy as np

from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.table import Floats


def price_of_lateness(seen: ApplicationEvaluation, evaluation: Evaluation, late_rows: Floats, rows: Floats) -> Floats:
    """4 · burn², where burn is the share of the window's error budget that will be spent. No cliff, and no saving up.

    1 is the cost of the largest pool, so half a budget is worth any pool and a tenth of it is worth none. Beyond a
    whole budget the price is linear, so that rows that cannot be saved do not become ever more expensive.
    """
    budgets, weights, place = evaluation.budgets, evaluation.promises.weight, seen.place
    allowed = float(budgets.allowed[place])
    burn = (budgets.late[place] + late_rows) / (allowed * np.maximum(budgets.rows[place] + rows, 1.0))
    ahead = late_rows / (allowed * np.maximum(rows, 1.0))
    # What is already spent cannot be recovered. It makes the rest more expensive, but only new rows have a price.
    price = 4.0 * ahead * np.minimum(np.maximum(burn, ahead), 1.0)
    return np.asarray(price * weights[place] / weights.max())
