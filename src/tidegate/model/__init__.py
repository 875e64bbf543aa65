"""The controller's models of application behaviour.

In: costs of a query, its queue, expected arrivals and candidate configurations.
Out: predicted latency, rows over the objective, and the slots that are needed.
Never touches: observations and decisions. The simulator's plant never uses these models, so no controller is graded
by its own assumptions.
"""
