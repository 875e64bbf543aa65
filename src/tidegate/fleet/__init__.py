"""A fleet: each host is a Spark application with an agent, and a centre places streaming applications on the hosts.

In: the fleet's file, reports of agents, and leases.
Out: placements, moves, and hosts started and stopped.
Never touches: rows: only requests and reports travel between hosts.
"""
