"""The keeper process: its loop, and the control socket on which the agent directs it."""
