"""Redis servers in a Kubernetes cluster: a StatefulSet that a campaign makes, or a Service."""
