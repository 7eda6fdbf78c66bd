"""Programs in hand: read from texts, written by hand, captured from a function; objects between stages, with inputs.

`loading.py` is `cuesta.load`, `capturing.py` is `cuesta.lower`, and `building.py` is beneath `cuesta.build`. `texts.py`
and `arguments.py` hold a text and a call to what machine code relies on; `stages.py` has the objects, `inputs_of.py`
and `kept_inputs.py` what they are called with. Running and comparing programs is the work of `cuesta.replaying`.
"""
