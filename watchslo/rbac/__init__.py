"""The least permissions that a configuration needs: what each feature requests, and the roles that permit just that."""
