"""Typed output: the final answer is read as a type. One that does not fit is asked for once more."""

import os
from dataclasses import dataclass

from noria import Agent, OutputError, ScriptedModel


@dataclass
class Invoice:
    """What an invoice says."""

    number: str
    total: float
    items: list[str]


model = os.environ.get("NORIA_MODEL") or ScriptedModel(
    [
        "The invoice is number 2024-17, over 99.50.",  # no JSON: noria says so, and asks again
        '{"number": "2024-17", "total": 99.5, "items": ["bucket", "rope"]}',
    ]
)

agent = Agent(model, output=Invoice, instructions="You read invoices.")
result = agent.run_sync("Invoice 2024-17. One bucket, one rope. To be paid: 99.50")
try:
    print(f"{result.output.number}: {result.output.total:.2f} for {', '.join(result.output.items)}")
except OutputError as error:  # it did not fit the second time either, or the run failed
    print(error)
