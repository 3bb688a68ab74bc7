"""The apiserver: credentials, requests, discovery."""
