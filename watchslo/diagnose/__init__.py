"""Diagnosis: names the causes of delays, from the differences between successive snapshots."""
