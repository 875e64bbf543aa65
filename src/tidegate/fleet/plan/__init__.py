"""The paper's managers as proposers and guards: operators and regions on the fast clock, the centre on the slow one.

| manager (E2DF) | here | works in |
|---|---|---|
| Operator | `replicas.OperatorPolicies`, a proposer | every host |
| Region | `relieving.RegionHosts`, a proposer | one host of the region |
| Application | `requests.Requests`, a proposer, and `tokens.Tokens`, a guard | the centre |
| Infrastructure | `sizing.RegionSizes`, a proposer, and `budget.HostBudget`, a guard | the centre |

What a host or a region may not decide alone is held by `asking.AskCentre`. What it holds is what they ask for.
"""
