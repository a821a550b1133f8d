"""What a file adds to the token signer's contract: permissions, races, damage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.kernel.errors import Unavailable

SHOW_KEY = """
import sys
from pathlib import Path
from trace_core.adapters.lite.key_file import KeyFileSigner
print(KeyFileSigner(Path(sys.argv[1])).kid)
"""


def test_nothing_is_written_before_the_first_use(tmp_path: Path) -> None:
    KeyFileSigner(tmp_path / "keys" / "task.pem")
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_can_read_the_key(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "task.pem"
    signer = KeyFileSigner(path)
    signer.sign({})
    assert path.stat().st_mode & 0o777 == 0o600
    signer.rotate()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", SHOW_KEY, str(tmp_path / "task.pem")]
    starters = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert len({starter.communicate(timeout=30)[0] for starter in starters}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["task.pem"]


def test_the_retired_keys_are_public_ones(tmp_path: Path) -> None:
    signer = KeyFileSigner(tmp_path / "task.pem")
    signer.rotate()
    signer.rotate()
    text = (tmp_path / "task.pem").read_text(encoding="ascii")
    assert text.count("BEGIN PRIVATE KEY") == 1
    assert text.count("BEGIN PUBLIC KEY") == 2


def test_the_oldest_retired_keys_are_forgotten(tmp_path: Path) -> None:
    signer = KeyFileSigner(tmp_path / "task.pem")
    kids = [signer.kid]
    for _ in range(10):
        signer.rotate()
        kids.append(signer.kid)
    assert [key["kid"] for key in signer.jwks()["keys"]] == kids[:1:-1]


def test_what_a_caller_does_to_the_keys_stays_with_the_caller(tmp_path: Path) -> None:
    signer = KeyFileSigner(tmp_path / "task.pem")
    signer.jwks()["keys"][0]["kid"] = "changed"
    assert signer.jwks()["keys"][0]["kid"] == signer.kid


def pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(ed25519.Ed25519PrivateKey.generate()),
        pem(ec.generate_private_key(ec.SECP256R1())) * 2,
    ],
    ids=["empty", "nonsense", "another curve", "another kind", "two private keys"],
)
def test_a_damaged_or_foreign_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "task.pem"
    path.write_bytes(content)
    with pytest.raises(Unavailable):
        KeyFileSigner(path).sign({})
    with pytest.raises(Unavailable):
        KeyFileSigner(path).rotate()
    assert path.read_bytes() == content


def test_the_signer_shows_no_key_of_itself(tmp_path: Path) -> None:
    signer = KeyFileSigner(tmp_path / "task.pem")
    signer.sign({})
    assert "private" not in (repr(signer) + repr(vars(signer))).lower()
