"""The `zoo` subcommands that need keepers and torch."""
