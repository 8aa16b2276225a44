"""What may be spent and what was: prices, limits, budgets, the breaker, statistics, and `instar stop`.

May import `store`, `provider` and what stands before them. Begin with `budget.py`: `check` says what forbids a call.
"""
