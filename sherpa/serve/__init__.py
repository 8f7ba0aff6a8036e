"""The doors of a memory: one list of operations, reached in the process, through a child, over HTTP, or by MCP."""
