"""Checks every argument and attribute that Terraform files use against the types of the AWS provider 6.

Usage: provider6.py PACKAGE.tgz DIRECTORY…. The package is npm's @cdktn/provider-aws, whose types are generated from the
schema of a provider 6. A finding is an argument, block or attribute that this provider does not have, or a required argument
that a file does not give; any ends with 1. What types do not say is not checked: which values are accepted, what is
deprecated, and how the provider behaves.
"""

import pathlib
import re
import sys
import tarfile

import hcl2

# Arguments of Terraform itself.
META = {"count", "for_each", "depends_on", "lifecycle", "provider", "provisioner", "connection"}
ARGUMENT = re.compile(r"#(\w+) \w+#\w+\}(?:(?!\*/).)*\*/\s*readonly \w+(\??): ([^;]+);", re.DOTALL)
INTERFACE = re.compile(r"export interface (\w+)[^{]*\{(.*?)\n\}", re.DOTALL)
REFERENCE = re.compile(r"\b(data\.)?aws_([a-z0-9_]+)\.\w+(?:\[[^\]]*\])*\.([a-z_][a-z0-9_]*)")


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def uses_of(directories: list[str]):
    """Blocks as (file, kind, body), and references to attributes as (file, kind, attribute)."""
    blocks, references = [], set()
    for path in sorted(path for directory in directories for path in pathlib.Path(directory).glob("*.tf")):
        text = path.read_text()
        parsed = hcl2.loads(text)
        for prefix, entries in (("", parsed.get("resource", [])), ("data-", parsed.get("data", []))):
            for kind, named in (item for entry in entries for item in entry.items()):
                if kind.startswith("aws_"):
                    name = prefix + kind[4 if not prefix else 0 :].replace("_", "-")
                    blocks += [(path, name, body) for body in named.values()]
        for data, kind, attribute in REFERENCE.findall(text):
            references.add((path, ("data-aws-" if data else "") + kind.replace("_", "-"), attribute))
    return blocks, references


def problems_of(body: dict, interface: str, interfaces: dict, where: str) -> list[str]:
    """What the interface does not know of a block's arguments, or demands and does not find."""
    known = {name: (bool(optional), kind) for name, optional, kind in ARGUMENT.findall(interfaces[interface])}
    given = {}
    for name, values in body.items():
        if name == "dynamic":
            for block in values:
                for inner, dynamic in block.items():
                    given[inner] = dynamic["content"]
        elif not name.startswith("__") and name not in META:
            given[name] = values
    found = [f"{where}: {name} is required" for name, (optional, _) in known.items() if not optional and name not in given]
    for name, values in given.items():
        if name not in known:
            found.append(f"{where}: there is no {name}")
            continue
        inner = re.match(r"\w+", known[name][1])
        if inner and inner[0] in interfaces:
            for value in values:
                if isinstance(value, dict):
                    found += problems_of(value, inner[0], interfaces, f"{where}.{name}")
    return found


def main() -> int:
    package, *directories = sys.argv[1:]
    blocks, references = uses_of(directories)
    wanted = {f"package/lib/{kind}/index.d.ts": kind for kind in {b[1] for b in blocks} | {r[1] for r in references}}
    types = {}
    with tarfile.open(package) as archive:
        for member in archive:
            if member.name in wanted:
                types[wanted[member.name]] = archive.extractfile(member).read().decode()
    found = [f"there is no {kind}" for kind in sorted(set(wanted.values()) - set(types))]
    for path, kind, body in blocks:
        if kind in types:
            interfaces = dict(INTERFACE.findall(types[kind]))
            root = re.search(r"export interface (\w+) extends cdktn.TerraformMetaArguments", types[kind])[1]
            found += problems_of(body, root, interfaces, f"{path}: {kind}")
    for path, kind, attribute in sorted(references):
        if kind in types and not re.search(rf"get {camel(attribute)}\(\)", types[kind]):
            found.append(f"{path}: {kind} has no attribute {attribute}")
    version = re.search(r"hashicorp/aws/([0-9.]+)/", "".join(types.values()))
    print("\n".join(found + [f"  provider {version and version[1]}: {len(blocks)} blocks, {len(references)} attributes, {len(found)} findings"]))
    return 1 if found or not blocks or not references else 0


if __name__ == "__main__":
    sys.exit(main())
