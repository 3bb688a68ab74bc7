"""The container image: its content, and a build that needs no container engine and pulls no base image."""
