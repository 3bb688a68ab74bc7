"""The report on a past period: what was late and why, as HTML, Markdown or a few lines for a chat. Pure."""
