"""What runs: streams, tickers, their supervisor."""
