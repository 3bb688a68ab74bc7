"""Pushes the metrics to a collector of OpenTelemetry, by OTLP over HTTP; it needs the extra `otlp`."""
