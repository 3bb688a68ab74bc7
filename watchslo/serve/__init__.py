"""Serves metrics, status, feed and page over HTTP."""
