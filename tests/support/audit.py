"""The audit log of an apiserver: the metadata of each answered request of the service accounts in `default`."""

import json
from pathlib import Path
from typing import Any

import yaml

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:default"]},
        {"level": "None"},
    ],
}


class AuditLog:
    """The file of the log, in a folder; an apiserver with `flags` writes it before it answers."""

    def __init__(self, folder: Path) -> None:
        policy, self._log = folder / "policy.yaml", folder / "audit.log"
        policy.write_text(yaml.safe_dump(POLICY))
        self._log.touch()
        self.flags = [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-mode=blocking",
        ]

    def entries(self, account: str) -> list[dict[str, Any]]:
        """Return the entries of an account, several for a request that lasts."""
        entries = [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]
        user = f"system:serviceaccount:default:{account}"
        return [entry for entry in entries if entry["user"]["username"] == user]
