"""The history of the run: figures of an hour, verdicts of a day, events, headline. Pure, with bounded memory."""
