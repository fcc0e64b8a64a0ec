"""The vocabulary: frozen dataclasses, units and errors.

What every other package speaks. Nothing here reads a file, a clock or a server,
and nothing here imports another package of the project.
"""
