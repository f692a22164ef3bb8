"""The public path of `elasticjob_agent.host.numa`."""

from elasticjob_agent.host.numa import AffinityMode, NumaOptions

__all__ = ["AffinityMode", "NumaOptions"]
