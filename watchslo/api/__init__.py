"""The documents of `/api/v1` as typed structures: what the server writes, and what every reader of it decodes.

It may touch readings, and the enumerations of verdicts and events; nothing here asks, waits or writes. `serve` makes
documents from readings; `top`, `check`, `view`, `report` and `doctor` read them, also those of their own process.
"""
