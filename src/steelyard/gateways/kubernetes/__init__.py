"""The only door to Kubernetes clusters; the client library is an extra, imported when used."""
