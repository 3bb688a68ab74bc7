"""The least rights that a configuration needs: what each feature asks for, and the roles that permit just that."""
