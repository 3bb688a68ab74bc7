"""The list+watch protocol without I/O."""
