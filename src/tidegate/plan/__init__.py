"""Planning: proposers propose actions with reasons, the arbiter settles conflicts, and guards limit the result."""
