"""Packages that predict next events too, each behind an adapter that runs in an environment of its own."""
