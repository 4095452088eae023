"""Looks for secrets in the files of the repository.

Usage: secret_scan.py DETECT_SECRETS ALLOWED.toml, from the top of the repository. Runs the
command detect-secrets over every file that git tracks or would add. Exit code 1 if ALLOWED.toml does
not name a finding with its reason, or names one that is no longer found.
"""

import json
import subprocess
import sys
import tomllib
from fnmatch import fnmatch

# Not scanned: checksums of packages and of findings, which are random text without meaning; and the saved worlds of
# the simulated world, whose texts are generated from a seed and may look like keys.
NOT_SCANNED = ("Cargo.lock", "tests/infra/secrets-allowed.toml", "tests/testkit/sim/tests/saved/*.json")
# Not secrets: values that name a secret, or that begin with "not-a-real-".
NO_SECRETS = ("^arn:aws:(secretsmanager|kms):", "^not-a-real-")


def files() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = [name for name in listed.split("\0") if name]
    return [name for name in names if not any(fnmatch(name, pattern) for pattern in NOT_SCANNED)]


def main() -> int:
    command, allowed_path = sys.argv[1:]
    with open(allowed_path, "rb") as file:
        allowed = {
            (entry["file"], entry["type"], entry["sha1"]): entry["reason"]
            for entry in tomllib.load(file).get("allowed", [])
        }
    names = files()
    excluded = [part for pattern in NO_SECRETS for part in ("--exclude-secrets", pattern)]
    scan = subprocess.run(
        [command, "scan", *excluded, *names], check=True, capture_output=True, text=True
    )
    found = {
        (name, finding["type"], finding["hashed_secret"]): finding["line_number"]
        for name, findings in json.loads(scan.stdout)["results"].items()
        for finding in findings
    }
    for (name, kind, sha1), line in sorted(found.items()):
        if (name, kind, sha1) not in allowed:
            print(f"{name}:{line}: {kind}; if it is none, allow it in {allowed_path} (sha1 {sha1})")
    for name, kind, sha1 in sorted(set(allowed) - set(found)):
        print(f"{allowed_path}: {kind} {sha1} is not in {name} any more; take it out")
    print(f"  {len(names)} files, {len(found)} findings, {len(allowed)} allowed with a reason")
    return 1 if not names or set(found) ^ set(allowed) else 0


if __name__ == "__main__":
    sys.exit(main())
