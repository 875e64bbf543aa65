"""From raw samples to reliable numbers: rates, costs, forecasts, error budgets, and the quality of the metrics.

In: one `Observation` after another, and what was learned before.
Out: one frozen `Evaluation` per step.
Never touches: clocks, files and randomness; nor does it propose anything.
"""
