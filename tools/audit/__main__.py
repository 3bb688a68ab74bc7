"""`python -m tools.audit LOCK` prints the known vulnerabilities and exits with 1 if there are any."""

import sys

from tools.audit.judge import audit

code, report = audit(sys.argv[1])
print(report)
sys.exit(code)
