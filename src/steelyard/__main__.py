"""``python -m steelyard``."""

from steelyard.cli.main import main

if __name__ == "__main__":
    main()
