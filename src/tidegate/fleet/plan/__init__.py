"""The paper's managers as proposers and guards: operators and regions at short intervals, the centre at longer ones.

| manager (E2DF) | here | runs in |
|---|---|---|
| Operator | `replicas.OperatorPolicies`, a proposer | every host |
| Region | `relieving.RegionHosts`, a proposer | one host of the region |
| Application | `requests.Requests`, a proposer, and `tokens.Tokens`, a guard | the centre |
| Infrastructure | `sizing.RegionSizes`, a proposer, and `budget.HostBudget`, a guard | the centre |

The guard `asking.AskCentre` holds what a host or a region may not decide alone. What it holds becomes a request.
"""
