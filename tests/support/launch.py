"""Replace this process by a command that dies with its parent: `python launch.py PARENT PROGRAM ARGUMENT...`.

PARENT is the process id of the parent. The kernel sends the signal when the *thread* that forked ends, so start
processes from the main thread only.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)  # the parent died before prctl
os.execv(sys.argv[2], sys.argv[2:])
