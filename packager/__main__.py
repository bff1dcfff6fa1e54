"""`python -m packager` is `wideswe-pack`."""

from packager.cli.main import main

main()
