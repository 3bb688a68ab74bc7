"""What a Prometheus is to record and to alert on, from the objectives of a configuration. All of it is plain data."""
