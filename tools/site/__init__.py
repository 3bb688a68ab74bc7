"""The documentation as a site: mkdocs.yml, its hook, and the lock of the packages that build it."""
