"""Whether a lock holds a version with a known vulnerability; `make check` asks."""
