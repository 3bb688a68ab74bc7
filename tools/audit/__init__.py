"""Checks a lock file for versions with known vulnerabilities; part of `make check`."""
