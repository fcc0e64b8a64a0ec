"""The only doors outside: processes, files, kernel, SQL, Redis, Kubernetes, ssh, libvirt, time.

Each door is a Protocol with one real implementation here and one fake in ``tests/fakes``; both
pass the same contract tests. Foreign errors are translated here, because everything above only
knows ``SteelyardError``.
"""
