"""From an observation of a job to its next plan, without I/O: the policies in their order."""
