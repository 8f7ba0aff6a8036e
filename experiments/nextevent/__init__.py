"""The benchmark of next-event prediction: models × logs, paired on the same steps."""
