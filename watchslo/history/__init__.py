"""What was: an hour of figures, what happened, a day of minutes, and all of that in words. Pure, and of fixed size."""
