"""A fleet: Spark applications as hosts with an agent each, and a centre that places streaming applications on them."""
