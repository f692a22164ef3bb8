"""`from elasticjob_agent import sampler`: the same global batches at any number of ranks.

The code is one independent file in user_python/worker/, for scripts whose Python does not have this package.
"""

from elasticjob_agent.user_python.worker.elasticjob_sampler import ElasticBatchSampler, MicroBatch, Permutation

__all__ = ["ElasticBatchSampler", "MicroBatch", "Permutation"]
