"""Why are watches late, and whose doing is it? Judged from outside, by what successive snapshots show."""
