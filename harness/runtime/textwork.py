"""Capabilities over text: index a document, search what was indexed, summarise with a model."""

from __future__ import annotations

from typing import Any

from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs, Need, Registry
from harness.runtime.context import chunk
from harness.runtime.filework import ApplyPatch, ListDir, ReadFile, WriteFile
from harness.runtime.retrieval import index_chunk, search
from harness.runtime.testwork import RunTests

_SUMMARISED = 8_000


class IndexDocument(Capability):
    """Cuts a file into chunks and makes them searchable in this run."""

    spec = CapabilitySpec(
        name="text.index_document",
        description="Indexes a text file for text.search_corpus.",
        input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        output_schema={"type": "object", "properties": {"chunks": {"type": "integer"}}, "required": ["chunks"]},
        requires=("fs_read",),
        idempotent=True,
    )

    def needs(self, inputs: Inputs, context: Context) -> list[Need]:
        return [("fs_read", inputs["path"])]

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        text = context.confinement.read(inputs["path"]).decode("utf-8", "replace")
        chunks = chunk(inputs["path"], text)
        with context.store.transaction():
            for piece in chunks:
                index_chunk(context.store, context.run_id, piece)
        return {"chunks": len(chunks)}


class SearchCorpus(Capability):
    """Full-text search over what this run has indexed."""

    spec = CapabilitySpec(
        name="text.search_corpus",
        description="The best chunks for a query.",
        input_schema={
            "type": "object",
            "properties": {"query": {"type": "string"}, "k": {"type": "integer", "minimum": 1, "maximum": 100}},
            "required": ["query"],
        },
        output_schema={"type": "object", "properties": {"hits": {"type": "array"}}, "required": ["hits"]},
        idempotent=True,
    )

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        hits = search(context.store, inputs["query"], run_id=context.run_id, k=inputs.get("k", 5))
        return {"hits": [hit._asdict() for hit in hits]}


class Summarize(Capability):
    """A summary by the model."""

    spec = CapabilitySpec(
        name="text.summarize",
        description="A short summary of a text, by the model.",
        input_schema={
            "type": "object",
            "properties": {"text": {"type": "string"}, "max_words": {"type": "integer", "minimum": 1}},
            "required": ["text"],
        },
        output_schema={"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]},
    )

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        words = inputs.get("max_words", 80)
        prompt = f"Summarise in at most {words} words:\n\n{inputs['text'][:_SUMMARISED]}"
        answer = context.ask([{"role": "user", "content": prompt}], session="summarizer")
        return {"summary": answer.text}


def builtin() -> Registry:
    """A registry of all capabilities of this package."""
    return Registry(
        [
            ReadFile(),
            WriteFile(),
            ListDir(),
            ApplyPatch(),
            RunTests(),
            IndexDocument(),
            SearchCorpus(),
            Summarize(),
        ]
    )
