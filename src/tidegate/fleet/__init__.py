"""A fleet: each host is a Spark application with an agent, and a centre places streaming applications on the hosts."""
