"""A notebook: a model walks down the slope, one level at a time. `make notebook` opens it; as a script it just runs."""

import marimo

app = marimo.App(width="medium", app_title="Down the slope")


@app.cell
def _():
    import marimo as mo

    mo.md(
        """
        # Down the slope

        A model enters at the top through `torch.compile(model, backend="cuesta")`, and walks down until it is machine
        code. Every level is text. Choose a model and a stage; change the text below, and run what you made of it.
        """
    )
    return (mo,)


@app.cell
def _(mo):
    import torch
    from torch import Tensor, nn

    def softmax_of_gelu(x: Tensor) -> Tensor:
        return torch.softmax(nn.functional.gelu(x), dim=-1)

    def layer_norm(x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x * 2 + 1, x.shape[-1:])

    def cumulative(x: Tensor) -> Tensor:
        return (x.exp().cumsum(-1) + 1).log()

    models = {"softmax of a GELU": softmax_of_gelu, "layer norm": layer_norm, "a cumulative sum": cumulative}
    chosen = mo.ui.dropdown(models, value="softmax of a GELU", label="model")
    chosen
    return Tensor, chosen, torch


@app.cell
def _(chosen, torch):
    import tempfile
    from pathlib import Path

    import cuesta

    torch._dynamo.reset()
    inputs = torch.randn(64, 256)
    folder = Path(tempfile.mkdtemp(prefix="cuesta-slope-"))
    compiled = torch.compile(chosen.value, backend="cuesta", options={"dump": str(folder)})
    result = compiled(inputs)
    torch.testing.assert_close(result, chosen.value(inputs))
    (levels,) = folder.iterdir()
    texts = {path.stem: path for path in sorted(levels.glob("*.mlir"))}
    return cuesta, inputs, levels, result, texts


@app.cell
def _(cuesta, mo):
    record = cuesta.records[-1]
    mo.md(
        f"""
        **{record.aten_ops}** calls of ATen became **{record.kernels}** kernels and **{record.library_calls}** library
        calls, in {record.own_seconds:.2f} s (and {record.capture_seconds:.2f} s of PyTorch's capture).
        """
    )
    return


@app.cell
def _(mo, texts):
    from cuesta.pipeline import STAGES

    reasons = {stage.label: stage.why for stage in STAGES}
    stage = mo.ui.slider(steps=list(range(len(texts))), value=min(2, len(texts) - 1), label="stage", full_width=True)
    stage
    return reasons, stage


@app.cell
def _(mo, reasons, stage, texts):
    name = list(texts)[stage.value]
    label = name.partition("_")[2]
    mo.md(f"### after `{label}`\n\n{reasons.get(label, 'as it was imported from FX')}")
    return (name,)


@app.cell
def _(mo, name, texts):
    from cuesta.context import make_context
    from cuesta.dialects.core.locations import CuestaParser, print_text

    module = CuestaParser(make_context(), texts[name].read_text(), name).parse_module()
    editor = mo.ui.code_editor(print_text(module), language="plaintext", label="Edit it: what is below follows.")
    editor
    return (editor,)


@app.cell
def _(cuesta, editor, inputs, levels, mo, name, result, texts, torch):
    header = "".join(line + "\n" for line in texts[name].read_text().splitlines() if line.startswith("//"))
    edited = levels / "edited.txt"
    edited.write_text(header + editor.value)
    try:
        (again,) = cuesta.load(edited)(inputs)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with an edited text is shown
        outcome = mo.callout(mo.md(f"```\n{error}\n```"), kind="danger")
        again = None
    else:
        same = torch.equal(again, result)
        said = "the same bits as the model" if same else f"off by at most {(again - result).abs().max():.3g}"
        outcome = mo.callout(mo.md(f"It compiles from here on, and gives {said}."), kind="success" if same else "warn")
    outcome
    return (again,)


@app.cell
def _(levels, mo):
    wrapper, kernels = (levels / "wrapper.py").read_text(), (levels / "kernels.ll").read_text()
    mo.accordion(
        {
            "the wrapper": mo.md(f"```python\n{wrapper}\n```"),
            "LLVM text of the kernels": mo.md(f"```llvm\n{kernels[:8000]}\n```"),
        }
    )
    return


if __name__ == "__main__":
    app.run()
