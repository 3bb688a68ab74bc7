"""The sections of the configuration as pydantic models: a file for each, with the name of its key.

Keys are camelCase in YAML. Durations are seconds, sizes are bytes. `model` puts the sections together.
"""
