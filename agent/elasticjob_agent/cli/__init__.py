"""The agent's command line."""

from elasticjob_agent.cli.main import main

__all__ = ["main"]
