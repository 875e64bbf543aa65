"""A simulated twin of a recorded run: calibrated from its journal, replayed under another policy.

In: a journal or an event log, and a policy.
Out: a scenario for the simulator, and a comparison with what happened.
Never touches: the job that was recorded.
"""
