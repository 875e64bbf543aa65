"""Planning: proposers propose actions with reasons, the arbiter settles conflicts, and guards limit the result.

In: an `Evaluation`, and the receipts of earlier actions.
Out: a `Plan`: proposals with reasons and predictions.
Never touches: the world. Nothing here acts, waits or reads a clock.
"""
