"""Generates files of `deploy/`: RBAC roles and rules from the configurations of the profiles."""
