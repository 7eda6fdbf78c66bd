"""Extensions of the compiler, one of each kind, each a script that runs; `docs/extending.md` tells about them."""
