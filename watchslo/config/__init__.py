"""The configuration: an optional YAML file with camelCase keys, all of which have defaults."""
