#!/usr/bin/env python3
"""Print the options of the installed vLLM's server as JSON, read from its own argument parser.

usage: python3 tools/flagtable/dump.py > 0.34.0.json     (with the Python that vLLM is installed in; no GPU needed)
then:  make flags VERSION=0.34.0 FROM=0.34.0.json

Help texts are not kept. "annotation" is the type of the engine argument behind an option: where the parser's own
conversion is a wrapper without a name of its own, that type says what the option takes.
"""
import argparse
import dataclasses
import json
import os
import sys

MAX_ANNOTATION = 160


def parser():
    from vllm.entrypoints.openai.cli_args import make_arg_parser

    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:  # up to 0.11
        from vllm.utils import FlexibleArgumentParser
    return make_arg_parser(FlexibleArgumentParser())


def annotations():
    from vllm.engine.arg_utils import AsyncEngineArgs

    return {f.name: str(f.type).replace("typing.", "")[:MAX_ANNOTATION] for f in dataclasses.fields(AsyncEngineArgs)}


def plain(value):
    """value as JSON where it is JSON, else its representation."""
    try:
        json.dumps(value, allow_nan=False)
        return value
    except (TypeError, ValueError):
        return str(value)


def option(action, types):
    names = [s for s in action.option_strings if s.startswith("--")]
    positive = [s for s in names if not s.startswith("--no-")]
    out = {"default": plain(action.default)}
    if isinstance(action, argparse.BooleanOptionalAction) or action.nargs == 0:
        out["type"] = "bool"
        if any(s.startswith("--no-") for s in names):
            out["negatable"] = True
    elif (name := getattr(action.type, "__name__", "_")).isidentifier() and not name.startswith("_"):
        out["type"] = name
    if action.nargs not in (0, None):
        out["nargs"] = action.nargs
    if action.choices is not None:
        out["choices"] = [str(c) for c in action.choices]
    if action.dest in types:
        out["annotation"] = types[action.dest]
    if len(positive) > 1:
        out["aliases"] = positive[1:]
    return positive[0][2:], out


def main():
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"  # its log goes to the standard output
    import vllm

    types = annotations()
    flags = dict(option(a, types) for a in parser()._actions if any(s.startswith("--") for s in a.option_strings))
    json.dump({"version": vllm.__version__.split("+")[0], "flags": flags}, sys.stdout, indent=0, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
