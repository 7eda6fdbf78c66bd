"""`cuesta-opt`: run passes on a program in text, at any level.

cuesta-opt program.mlir -p "eliminate-views,fuse-nests{explain=true}" --print-between
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TextIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from cuesta.context import make_context
from cuesta.dialects.core.deadline import allowing
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic, verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import ATTRIBUTE, Machine, MachineAttr
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.dialects.host import programs_of
from cuesta.extensions import extended, load_file, seconds_for
from cuesta.passes import available_passes, describe_options, parse_passes
from cuesta.pipeline import Stage, extended_stages, repeat_command, run_pipeline, stages_named
from cuesta.programs.header import Header, read_header, split_passes
from cuesta.programs.texts import errors_of, parse_text, verify_text

EXIT_OK = 0
EXIT_INVALID = 1
"""The program does not parse or verify, or a pass refused it."""
EXIT_USAGE = 2
"""The command itself is wrong: an unknown option or pass, or a file that cannot be read or written."""

_SEPARATOR = re.compile(r"^// -----.*\n?", re.MULTILINE)


class UsageError(Exception):
    """The command cannot be carried out."""


@dataclass(frozen=True)
class Chunk:
    """One program of a file, and the number of its first line there."""

    text: str
    first_line: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool on `sys.argv`, or on the arguments given; the value is the exit status."""
    options = _parser().parse_args(arguments)
    try:
        loaded = [extension for file in options.load for extension in load_file(file)]
        with extended(*loaded), allowing(seconds_for()):
            status = _run(options)
        sys.stdout.flush()
        return status
    except CuestaError as error:
        print(f"cuesta-opt: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        # Who reads the output has seen enough. What is left in the buffer goes nowhere, or Python would tell of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK


def _run(options: argparse.Namespace) -> int:
    try:
        if options.go_on and options.passes:
            raise UsageError("--go-on runs what the text says it still has before it: there is nothing to ask for")
        if options.list_passes:
            _list_passes()
            return EXIT_OK
        if options.list_stages:
            _list_stages()
            return EXIT_OK
        if options.list_laws:
            from cuesta.laws.listing import listing

            print(listing(), end="")
            return EXIT_OK
        if options.machine is not None:
            Machine.parse(options.machine)
        parse_passes(options.passes)  # an unknown pass is an error whatever the program is
    except (CuestaError, UsageError) as error:
        print(f"cuesta-opt: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        text, name = _read(options.input)
        chunks = list(split_input(text)) if options.split_input_file else [Chunk(text, 1)]
        outputs: list[str] = []
        status = EXIT_OK
        for chunk in chunks:
            output = run_chunk(chunk, name, options)
            if output is None:
                status = EXIT_INVALID
            else:
                outputs.append(output)
        if status == EXIT_OK:
            _write(options.output, "// -----\n".join(outputs))
    except UsageError as error:
        print(f"cuesta-opt: {error}", file=sys.stderr)
        return EXIT_USAGE
    return status


def run_captured(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Run the tool inside this process: exit status, standard output, standard error."""
    stdout, stderr = StringIO(), StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            status = main(arguments)
        except SystemExit as exit_:  # argparse, on a wrong option
            status = exit_.code if isinstance(exit_.code, int) else EXIT_USAGE
    return status, stdout.getvalue(), stderr.getvalue()


def split_input(text: str) -> Iterator[Chunk]:
    """The programs of a file, which lines of `// -----` separate."""
    start = 0
    for separator in _SEPARATOR.finditer(text):
        yield Chunk(text[start : separator.start()], 1 + text.count("\n", 0, start))
        start = separator.end()
    yield Chunk(text[start:], 1 + text.count("\n", 0, start))


def run_chunk(chunk: Chunk, name: str, options: argparse.Namespace) -> str | None:
    """The program after the passes; None, with the error printed, when it is refused."""
    context = make_context()
    header = read_header(chunk.text, first_line=chunk.first_line)
    if header.other_version:
        print(f"cuesta-opt: {name}: {header.other_version}", file=sys.stderr)
    passes: str = options.passes
    try:
        if options.go_on:
            passes = _remaining(header, name)
        with errors_of(chunk.text, name, chunk.first_line):
            module = _after_passes(context, chunk, name, passes, options)
            text = print_text(module, locations=options.locations, generic=options.generic)
    except ParseError as error:
        print(_format_parse_error(error, chunk.first_line), file=sys.stderr)
        return None
    except CuestaError as error:
        if passes:
            error.add_context(repeat=repeat_command(name, passes))
        error.show_lines(chunk.text, name, chunk.first_line)
        print(error, file=sys.stderr)
        return None
    after = header.then(split_passes(passes))
    return text if after is None else f"{after}{text}"


def _after_passes(context: Context, chunk: Chunk, name: str, passes: str, options: argparse.Namespace) -> ModuleOp:
    """The program that the passes make of a text, which is held to what `cuesta.load` holds it to.

    Errors: ParseError, CuestaError; whatever else a pass raises.
    """
    module = parse_module(context, chunk, name)
    if options.machine is not None:
        for part in (module, *programs_of(module)):
            part.attributes[ATTRIBUTE] = MachineAttr(Machine.parse(options.machine))
    if not options.no_verify:
        verify_text(module)
    if options.trace_rewrites:
        with trace_rewrites() as trace:
            _run_passes(context, module, passes, options)
        print(trace.summary(), file=sys.stderr)
    else:
        _run_passes(context, module, passes, options)
    if not options.no_verify:
        verify_module(module)
        verify_dominance(module)
    return module


def _remaining(header: Header, name: str) -> str:
    """The passes that a text says it still has before it.

    Errors: CuestaError when it says nothing, or names a pass that there is not.
    """
    if header.remaining is None:
        raise CuestaError(Diagnostic("the text does not say which stages remain: it has no line `// remaining: …`"))
    stages_named(header.remaining, place=f"{name}:{header.line}")
    return ",".join(header.remaining)


def parse_module(context: Context, chunk: Chunk, name: str) -> ModuleOp:
    """Parse one program.

    Errors: ParseError.
    """
    return parse_text(context, chunk.text, name, chunk.first_line)


def _run_passes(context: Context, module: ModuleOp, passes: str, options: argparse.Namespace) -> None:
    def show(name: str, module: ModuleOp, seconds: float) -> None:
        print(f"// ----- after {name} ({seconds * 1e3:.2f} ms)", file=sys.stderr)
        print(print_text(module, locations=options.locations, generic=options.generic), file=sys.stderr)

    stages = [Stage(str(one.spec()), "asked for on the command line") for one in parse_passes(passes)]
    if options.print_between:
        print("// ----- input", file=sys.stderr)
        print(print_text(module, locations=options.locations, generic=options.generic), file=sys.stderr)
    run_pipeline(
        context,
        module,
        stages,
        verify_each=options.verify_each,
        after_stage=show if options.print_between else None,
    )


def _format_parse_error(error: ParseError, first_line: int) -> str:
    text = str(error).rstrip()
    if first_line == 1:
        return text
    location = error.span.get_location()
    return text.replace(str(location), str(location._replace(line=location.line + first_line - 1)), 1)


def _read(path: str) -> tuple[str, str]:
    if path == "-":
        return sys.stdin.read(), "<stdin>"
    try:
        return Path(path).read_text(encoding="utf-8"), path
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


def _write(path: str, text: str) -> None:
    """Write all of the output, or nothing: a file is replaced only once its new content is complete."""
    if path == "-":
        _write_stream(sys.stdout, text)
        return
    target = Path(path)
    temporary = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", delete=False
        ) as stream:
            temporary = stream.name
            stream.write(text)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error}") from None


def _write_stream(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _list_passes() -> None:
    for name, load in sorted(available_passes().items()):
        pass_type = load()
        summary = (pass_type.__doc__ or "").strip().partition("\n")[0]
        options = describe_options(pass_type)
        print(f"{name:28} {summary}" + (f"  [{options}]" if options else ""))


def _list_stages() -> None:
    stages = extended_stages()
    width = max(len(stage.label) for stage in stages)
    for stage in stages:
        print(f"{stage.label:{width}}  {stage.why}{stage.extension and f' (extension {stage.extension})'}")
        if stage.begins is not None:
            print(f"{'':{width}}  -- here begins: {stage.begins.level}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cuesta-opt",
        description="Run passes on a program in text, at any level.",
        epilog=f"exit status: {EXIT_OK} done, {EXIT_INVALID} the program is refused, {EXIT_USAGE} the command is wrong",
    )
    parser.add_argument("input", nargs="?", default="-", help="the file to read; - is standard input")
    parser.add_argument("-p", "--passes", default="", metavar="A,B{X=1}", help="the passes to run, in order")
    parser.add_argument("--go-on", action="store_true", help="run the stages that the text's first lines say remain")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to write; - is standard output")
    parser.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="FILE.py",
        help="a file that defines extensions; several may be given",
    )
    parser.add_argument("--list-passes", action="store_true", help="list the passes with their options")
    parser.add_argument("--list-laws", action="store_true", help="list the laws that canonicalize applies")
    parser.add_argument("--list-stages", action="store_true", help="list the stages of the compiler, each with its why")
    parser.add_argument("--machine", metavar="LANES=4", help="the machine to compile for, in place of the stated one")
    parser.add_argument("--print-between", action="store_true", help="print the program after every pass, on stderr")
    parser.add_argument("--verify-each", action="store_true", help="verify after every pass, not only at the end")
    parser.add_argument("--no-verify", action="store_true", help="do not verify input and output")
    parser.add_argument("--trace-rewrites", action="store_true", help="say which rules fired, and why others did not")
    parser.add_argument("--split-input-file", action="store_true", help="several programs, separated by // -----")
    parser.add_argument("--locations", action="store_true", help="print source locations")
    parser.add_argument("--generic", action="store_true", help="print in MLIR's generic form")
    return parser


if __name__ == "__main__":
    sys.exit(main())
