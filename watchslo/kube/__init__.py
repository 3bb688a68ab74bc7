"""Access to apiservers: credentials, requests and discovery."""
