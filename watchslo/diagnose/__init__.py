"""Why are watches late? Pure: readings in, causes out."""
