"""Parts of a fleet's managers that know nothing of hosts or messages: local policies, tokens, and seats on hosts."""
