"""The apiservers: which there are, what is known of each, what they serve, and how far back they remember.

It sends requests through `kube` and knows no watch; the supervisor owns the set, all others read it.
"""
