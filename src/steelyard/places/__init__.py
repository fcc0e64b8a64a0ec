"""Where servers run: provision, start, change a setting there, run a command there, destroy.

Not what is measured: a platform is handed argv by an engine and runs it.
"""
