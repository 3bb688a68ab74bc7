"""When was a revision committed? Pure: values and times in, values out."""
