"""What the runtime can be shown to do, and the gates that decide whether it does."""
