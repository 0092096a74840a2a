"""Models, prompts and budgets: a prompt over every row, its answers durable, its cost known."""

from onward.llm.declaration import Budget
from onward.llm.model import Model
from onward.llm.prompt import Prompt

__all__ = ["Budget", "Model", "Prompt"]
