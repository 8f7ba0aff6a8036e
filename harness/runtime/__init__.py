"""A hermetic runtime: goals become bounded typed plans, plans become checked steps, and the event log is the truth."""
