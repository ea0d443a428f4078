import os

import pytest

from tests.cases_in_one import each
from trace_tools.describing.redact import Redactor

SECRETS = {
    "HF_TOKEN": "hf_abcdefghij",
    "AWS_SECRET_ACCESS_KEY": "it's/a+secret\nof=two",
    "apiKey": "0123456789abcdef",
    "MYSQL_PWD": "correcthorse",
    "SLURM_JWT": "eyJhbGciOi.x",
    "SHORT_TOKEN": "abc1234",
    "PWD": "/home/ann/lectures",
    "GIT_AUTHOR_NAME": "Ann Example",
    "TOKENIZERS_PARALLELISM": "disabled",
    "MONTH": "september",
}


@pytest.fixture(scope="module")
def redact() -> Redactor:
    return Redactor("/home/ann", SECRETS)


@each(
    ("text", "redacted"),
    [
        ("/home/ann/lecture.py", "~/lecture.py"),
        ("'/home/ann'", "'~'"),
        ("/home/ann", "~"),
        ("/home/anna/x", "/home/anna/x"),
        ("/mnt/home/ann/x", "/mnt/home/ann/x"),
        ("Authorization: hf_abcdefghij", "Authorization: <HF_TOKEN>"),
        ("Bearer eyJhbGciOi.x", "Bearer <SLURM_JWT>"),
        ("xhf_abcdefghijx /home/ann/hf_abcdefghij", "x<HF_TOKEN>x ~/<HF_TOKEN>"),
        (SECRETS["AWS_SECRET_ACCESS_KEY"], "<AWS_SECRET_ACCESS_KEY>"),
        (repr(SECRETS["AWS_SECRET_ACCESS_KEY"]), '"<AWS_SECRET_ACCESS_KEY>"'),
        ("0123456789abcdef", "<apiKey>"),
        ("the correcthorse staple, correcthorses", "the <MYSQL_PWD> staple, correcthorses"),
        ("abc1234 disabled in september by Ann Example", "abc1234 disabled in september by Ann Example"),
    ],
)
def test_only_names_and_secrets_are_redacted(redact: Redactor, text: str, redacted: str) -> None:
    assert redact(text) == redacted


def test_root_and_relative_homes_are_not_redacted() -> None:
    for home in ("/", "~", "", "//"):
        assert Redactor(home, {})("/usr/lib ~ x") == "/usr/lib ~ x"


def test_the_target_of_a_linked_home_is_redacted(tmp_path: os.PathLike[str]) -> None:
    target, link = os.path.join(tmp_path, "target"), os.path.join(tmp_path, "link")
    os.mkdir(target)
    os.symlink(target, link)
    assert Redactor(link, {})(f"{target}/a {link}/b") == "~/a ~/b"


def test_secrets_that_contain_another_or_pattern_characters() -> None:
    redact = Redactor("", {"A_KEY": "12345678", "B_KEY": "123456789", "C_KEY": r"a.*(b)[c]\d"})
    assert redact(r"123456789 12345678 a.*(b)[c]\d axx(b)") == "<B_KEY> <A_KEY> <C_KEY> axx(b)"


def test_the_account_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("SOME_API_KEY", "xyzzy-plugh-42")
    redact = Redactor.of_this_machine(private=("/tmp/copy", "/home/somebody/course"))
    assert redact("/home/somebody/x /tmp/copy/y xyzzy-plugh-42") == "~/x ~/course/y <SOME_API_KEY>"
