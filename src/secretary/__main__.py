"""`python -m secretary` is the same as `secretary`."""

from .cli import main

if __name__ == "__main__":
    main()
