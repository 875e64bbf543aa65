"""The closed loop: ports, knowledge, the pure controller, the runner and the journal.

In: observations from a `Cluster`, the policy, and receipts.
Out: decisions, targets for `converge`, and the journal of both.
Never touches: Spark, or any other particular world: it knows the port only.
"""
