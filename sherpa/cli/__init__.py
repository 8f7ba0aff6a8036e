"""The command line. Every command is a few lines over the library; nothing heavy is imported before it is needed."""
