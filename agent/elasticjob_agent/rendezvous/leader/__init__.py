"""The leader of a job's rendezvous: election, rounds, links to the members."""
