"""An apiserver's own metrics: which lines of its page are kept, what they say, and what changed between two reads."""
