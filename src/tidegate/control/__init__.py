"""The closed loop: ports, knowledge, the pure controller, the runner and the journal."""
