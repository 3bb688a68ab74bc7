"""`python -m tools.audit LOCK` exits with 1 where a vulnerability is known, and says what is."""

import sys

from tools.audit.judge import audit

code, said = audit(sys.argv[1])
print(said)
sys.exit(code)
