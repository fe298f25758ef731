"""Makes the goldens of this folder; README.md describes their format.

Needs, in a virtual environment: torch transformers tokenizers safetensors gguf numpy.
  python make_goldens.py --smollm2 FOLDER   (FOLDER holds SmolLM2-135M-Instruct.Q4_1.gguf)
  python make_goldens.py --tiny             (the small random models, their goldens, RoPE tables)
Seeds are fixed; another release of torch may draw other weights, so commit models and goldens
together.
"""

import argparse
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    if args.smollm2:
        import smollm2
        smollm2.make(args.smollm2 / smollm2.FILE_NAME, HERE)
    if args.tiny:
        import rope_tables
        import tiny_models
        tiny_models.make(HERE)
        rope_tables.make(HERE)


if __name__ == "__main__":
    main()
