"""Run a job on this machine: manifest, volumes, environment, and a kubelet whose containers are processes."""
