"""The checks of nodes whose schemas are given as attributes: agents, workflows (workflow NODE-2, NODE-3)."""

from __future__ import annotations

from typing import Any

from hookwork.errors import InputValidationError, OutputValidationError
from hookwork.node import Node
from hookwork_workflow.schemas import SchemaFault, check_input, check_output, schema_of


def checked_input(node: Node, value: Any) -> Any:
    """The input as the node's ``input_schema`` says. Raises InputValidationError."""
    schema = schema_of(node.input_schema) if node.input_schema is not None and value is not None else None
    if schema is None:
        return value
    try:
        return check_input(schema, value)
    except SchemaFault as fault:
        raise InputValidationError(node.name, str(fault)) from fault


def checked_output(node: Node, value: Any) -> Any:
    """The output in its JSON form, as the node's ``output_schema`` says. Raises OutputValidationError."""
    schema = schema_of(node.output_schema) if node.output_schema is not None and value is not None else None
    if schema is None:
        return value
    try:
        return check_output(schema, value)
    except SchemaFault as fault:
        raise OutputValidationError(node.name, str(fault)) from fault
