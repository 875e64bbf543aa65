"""Parts of a fleet's managers that know nothing of hosts or messages: local policies, tokens, and seats on hosts.

In: load and replicas of an operator, requests and their scores.
Out: wishes for more or fewer instances, and which of them are granted.
Never touches: messages, hosts and clocks.
"""
