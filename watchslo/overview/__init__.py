"""All instances of one cluster as one: what each of them reports, and the verdict on all of them together."""
