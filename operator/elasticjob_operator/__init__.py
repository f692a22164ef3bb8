"""The operator: ElasticJob, pods and the rendezvous in; pods and status out."""
