"""What `options={"validate": …}` and `cuesta validate` do: a compiled program is compared with the interpreter."""
