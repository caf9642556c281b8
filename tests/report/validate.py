"""Validates a JSON document against a JSON schema: python3 validate.py SCHEMA DOCUMENT...

Of the schema language only what the project's schemas use; an unknown keyword is an error, so that no rule is passed
over in silence. Independent of the program that writes the documents.
"""

import json
import sys

ANNOTATIONS = {"$schema", "$defs", "title", "description"}
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}


class Validator:
    def __init__(self, root):
        self.root = root

    def resolve(self, reference):
        node = self.root
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        return node

    def check(self, schema, value, at):
        """Yields what is wrong with the value."""
        for keyword, rule in schema.items():
            if keyword in ANNOTATIONS:
                continue
            method = getattr(self, "rule_" + keyword.replace("$", ""), None)
            if method is None:
                raise SystemExit(f"unknown keyword {keyword}")
            yield from method(rule, value, at, schema)

    def rule_ref(self, rule, value, at, _):
        yield from self.check(self.resolve(rule), value, at)

    def rule_type(self, rule, value, at, _):
        if not TYPES[rule](value):
            yield f"{at}: expected {rule}, found {value!r}"

    def rule_const(self, rule, value, at, _):
        if value != rule:
            yield f"{at}: expected {rule!r}, found {value!r}"

    def rule_enum(self, rule, value, at, _):
        if value not in rule:
            yield f"{at}: expected one of {rule}, found {value!r}"

    def rule_anyOf(self, rule, value, at, _):
        found = [list(self.check(option, value, at)) for option in rule]
        if all(found):
            yield f"{at}: matches no alternative: {found[0][0]}"

    def rule_minimum(self, rule, value, at, _):
        if TYPES["number"](value) and value < rule:
            yield f"{at}: {value} is below {rule}"

    def rule_maximum(self, rule, value, at, _):
        if TYPES["number"](value) and value > rule:
            yield f"{at}: {value} is above {rule}"

    def rule_minLength(self, rule, value, at, _):
        if isinstance(value, str) and len(value) < rule:
            yield f"{at}: shorter than {rule}"

    def rule_maxItems(self, rule, value, at, _):
        if isinstance(value, list) and len(value) > rule:
            yield f"{at}: {len(value)} items, more than {rule}"

    def rule_items(self, rule, value, at, _):
        if isinstance(value, list):
            for i, item in enumerate(value):
                yield from self.check(rule, item, f"{at}/{i}")

    def rule_properties(self, rule, value, at, _):
        if isinstance(value, dict):
            for key in rule.keys() & value.keys():
                yield from self.check(rule[key], value[key], f"{at}/{key}")

    def rule_required(self, rule, value, at, _):
        if isinstance(value, dict):
            for key in rule:
                if key not in value:
                    yield f"{at}: the key {key} is missing"

    def rule_additionalProperties(self, rule, value, at, schema):
        if isinstance(value, dict):
            for key in value.keys() - schema.get("properties", {}).keys():
                if rule is False:
                    yield f"{at}: unknown key {key}"
                elif isinstance(rule, dict):
                    yield from self.check(rule, value[key], f"{at}/{key}")


def refuse(name):
    raise ValueError(f"{name} is no JSON")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    validator = Validator(schema)
    bad = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            document = json.load(file, parse_constant=refuse)
        for problem in validator.check(schema, document, ""):
            print(f"{path}: {problem}")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
